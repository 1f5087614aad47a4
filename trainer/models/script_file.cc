#include "trainer/models/script_file.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

#include <exception>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/file_map.h"
#include "trainer/files.h"
#include "trainer/torch_error.h"
#include "trainer/weights/zip_archive.h"

// Declared here because torch/csrc/jit/serialization/import.h includes headers
// outside of the folders of the wheel that third_party/torch.BUILD exposes.
namespace torch::jit {
TORCH_API Module load(const std::string& filename,
                      std::optional<c10::Device> device, bool load_debug_files);
}  // namespace torch::jit

namespace millrace::models {

namespace {

absl::Status NotWhole(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      path,
      " is not a whole TorchScript module that libtorch reads; write it with "
      "torch.jit.script(module).save(FILE) in Python: ",
      why));
}

}  // namespace

absl::StatusOr<ScriptFile> ScriptFile::Load(const std::string& path,
                                            torch::Device device) {
  // Tells a missing file from a damaged one.
  MR_RETURN_IF_ERROR(trainer::CheckReadable(path));
  // libtorch ignores the checksums of its archive: a flipped bit would become a
  // weight.
  MR_ASSIGN_OR_RETURN(const auto file, trainer::FileMap::Open(path));
  if (const auto entries = weights::ParseZip(file->bytes()); !entries.ok()) {
    return NotWhole(path, entries.status().message());
  }
  MR_RETURN_IF_ERROR(file->CheckWhole());
  try {
    ScriptFile script(
        path, torch::jit::load(path, device, /*load_debug_files=*/true));
    if (!script.module_.find_method("forward")) {
      return absl::DataLossError(absl::StrCat(
          path, " holds a TorchScript module without a method forward"));
    }
    return script;
  } catch (const std::exception& error) {
    return NotWhole(path, trainer::TorchSentence(error));
  }
}

c10::IValue ScriptFile::Forward(std::vector<c10::IValue> inputs) {
  torch::jit::GraphOptimizerEnabledGuard guard(optimized_);
  return module_.forward(std::move(inputs));
}

}  // namespace millrace::models
