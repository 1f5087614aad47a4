#include "trainer/weights/weights_file.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "trainer/weights/safetensors.h"
#include "trainer/weights/torch_file.h"

namespace millrace::weights {
namespace {

bool IsSafetensors(absl::string_view path) {
  return absl::EndsWith(path, ".safetensors");
}

// A ZIP archive or a pickle. A safetensors file could begin like one of them
// only with a header of gigabytes.
bool LooksLikeTorch(absl::string_view bytes) {
  return absl::StartsWith(bytes, "PK") || absl::StartsWith(bytes, "\x80");
}

}  // namespace

absl::StatusOr<WeightsFile> WeightsFile::Read(const std::string& path) {
  std::string bytes;
  // Refuses a pipe, which would wait for a writer for ever.
  MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes));
  WeightsFile file;
  file.bytes_ = std::make_unique<const std::string>(std::move(bytes));
  const bool torch_file = LooksLikeTorch(*file.bytes_) && !IsSafetensors(path);
  absl::StatusOr<std::vector<StoredTensor>> tensors =
      torch_file ? ParseTorchFile(*file.bytes_)
                 : ParseSafetensors(*file.bytes_);
  if (!tensors.ok()) {
    return absl::Status(
        tensors.status().code(),
        absl::StrCat(path, " cannot be read as ",
                     torch_file ? "weights of torch.save" : "safetensors", ": ",
                     tensors.status().message()));
  }
  file.tensors_ = *std::move(tensors);
  return file;
}

absl::Status CheckWeightsName(const std::string& path) {
  if (IsSafetensors(path) || absl::EndsWith(path, ".pt") ||
      absl::EndsWith(path, ".pth")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "is \"", path,
      "\"; end the name with .safetensors or, for torch.load, with .pt"));
}

absl::Status WriteWeights(const std::string& path,
                          const std::vector<StoredTensor>& tensors) {
  MR_RETURN_IF_ERROR(CheckWeightsName(path));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                      AtomicFile::Create(path));
  const auto sink = [&file](absl::string_view bytes) {
    file->Write(bytes).IgnoreError();  // Commit() reports it
  };
  if (IsSafetensors(path)) {
    WriteSafetensors(tensors, sink);
  } else {
    WriteTorchFile(tensors, sink);
  }
  return file->Commit();
}

}  // namespace millrace::weights
