// Files of weights, names and tensors, as Python reads and writes them:
// safetensors, and torch.save's (.pt, .pth).
//
//   MR_ASSIGN_OR_RETURN(auto file, WeightsFile::Read("resnet18.safetensors"));
//   for (const StoredTensor& tensor : file.tensors()) ...
//   MR_RETURN_IF_ERROR(WriteWeights("mine.pt", tensors));

#ifndef MILLRACE_TRAINER_WEIGHTS_WEIGHTS_FILE_H_
#define MILLRACE_TRAINER_WEIGHTS_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/weights/stored_tensor.h"

namespace millrace::weights {

class WeightsFile {
 public:
  // Detects the format from the first bytes. NotFound: no such file. DataLoss:
  // truncated or damaged. InvalidArgument: no file of weights. Errors name the
  // file.
  static absl::StatusOr<WeightsFile> Read(const std::string& path);

  // Views of bytes that this object owns.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

 private:
  WeightsFile() = default;

  std::unique_ptr<const std::string> bytes_;
  std::vector<StoredTensor> tensors_;
};

// InvalidArgument: the name does not end with .safetensors, .pt or .pth.
absl::Status CheckWeightsName(const std::string& path);

// Writes the format of the name's extension. On an error the file at `path` is
// kept. `tensors` are row-major without gaps and have different names.
absl::Status WriteWeights(const std::string& path,
                          const std::vector<StoredTensor>& tensors);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_WEIGHTS_FILE_H_
