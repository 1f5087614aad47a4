// Files of torch.save that hold weights: a ZIP archive with a pickle of a
// dictionary from names to tensors, and the tensors' bytes beside it. What is
// written opens with torch.load(FILE, weights_only=True); what is read is
// torch.save(module.state_dict(), FILE), or a dictionary that has the weights
// under "state_dict", "model_state_dict" or "model", as training scripts write.
//
// Pure functions over bytes. Nothing of the file is run or trusted.
//
//   MR_ASSIGN_OR_RETURN(auto tensors, ParseTorchFile(bytes));  // views
//   WriteTorchFile(tensors, sink);

#ifndef MILLRACE_TRAINER_WEIGHTS_TORCH_FILE_H_
#define MILLRACE_TRAINER_WEIGHTS_TORCH_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/weights/byte_sink.h"
#include "trainer/weights/stored_tensor.h"

namespace millrace::weights {

// In the order of the dictionary; their bytes are views of `file`. Values that
// are no tensors are left out. DataLoss: truncated or damaged. InvalidArgument:
// no file of weights; the message says what to do.
absl::StatusOr<std::vector<StoredTensor>> ParseTorchFile(
    absl::string_view file);

// `tensors` are row-major without gaps and have different names.
void WriteTorchFile(const std::vector<StoredTensor>& tensors,
                    const ByteSink& sink);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_TORCH_FILE_H_
