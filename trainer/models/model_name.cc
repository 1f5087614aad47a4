#include "trainer/models/model_name.h"

#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/regular_file.h"
#include "common/status_macros.h"

namespace millrace::models {

absl::StatusOr<ModelName> ParseModelName(absl::string_view text) {
  for (const absl::string_view name :
       {"mlp", "cnn", "resnet18", "resnet34", "resnet50", "unet"}) {
    if (text == name) {
      return ModelName{.name = std::string(name), .of_pixels = name == "unet"};
    }
  }
  absl::string_view file = text;
  if (absl::ConsumePrefix(&file, "torchscript:") && !file.empty()) {
    return ModelName{.name = "torchscript", .file = std::string(file)};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is \"", text,
                   "\"; choose mlp, cnn, resnet18, resnet34, resnet50, unet "
                   "or torchscript:FILE"));
}

absl::StatusOr<std::string> IdentityOf(const ModelName& model) {
  if (model.file.empty()) return model.name;
  std::string bytes;
  MR_RETURN_IF_ERROR(ReadRegularFile(model.file, &bytes));
  return absl::StrCat("torchscript:", ContentHash(bytes));
}

std::string ContentHash(absl::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical,
                           XXH3_128bits(bytes.data(), bytes.size()));
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(canonical.digest), sizeof(canonical)));
}

}  // namespace millrace::models
