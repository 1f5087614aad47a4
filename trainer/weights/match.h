// Matches the tensors of a file to the tensors of a model by name and shape.
// All must match; otherwise the error lists every mismatch.
//
// Two differences are allowed, as in Python: a prefix of all names that a
// wrapper added ("module." of DistributedDataParallel, "_orig_mod." of
// torch.compile), and missing counters of BatchNorm (num_batches_tracked),
// which files of old versions lack.
//
// Pure function.
//
//   MR_ASSIGN_OR_RETURN(auto places, MatchWeights(of_model, of_file, {"fc"}));

#ifndef MILLRACE_TRAINER_WEIGHTS_MATCH_H_
#define MILLRACE_TRAINER_WEIGHTS_MATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::weights {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
  bool floating = true;  // false: whole numbers or bool
};

// For each tensor of the model its index in `file`; nothing: the tensor keeps
// its value. `leave_out` names layers or tensors ("fc", "layer4.1.bn2.weight")
// that keep their values. InvalidArgument: a mismatch, or a name in `leave_out`
// that does not exist.
absl::StatusOr<std::vector<std::optional<size_t>>> MatchWeights(
    const std::vector<NamedShape>& model, const std::vector<NamedShape>& file,
    const std::vector<std::string>& leave_out);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_MATCH_H_
