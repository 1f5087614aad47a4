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

namespace millrace {

class WeightsFile {
 public:
  // Tells the formats apart by their first bytes. NotFound: no such file.
  // DataLoss: cut or damaged. InvalidArgument: something else than weights.
  // Each names the file.
  static absl::StatusOr<WeightsFile> Read(const std::string& path);

  // Views of bytes that live as long as this object.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

 private:
  WeightsFile() = default;

  std::unique_ptr<const std::string> bytes_;
  std::vector<StoredTensor> tensors_;
};

// InvalidArgument: the end of the name is none of .safetensors, .pt and .pth.
absl::Status CheckWeightsName(const std::string& path);

// In the format that the end of the name says. What was at `path` stays there
// when something fails. `tensors` are row-major without gaps and have different
// names.
absl::Status WriteWeights(const std::string& path,
                          const std::vector<StoredTensor>& tensors);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_WEIGHTS_FILE_H_
