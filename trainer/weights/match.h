// Which tensor of a file belongs to which tensor of a model: by name and shape,
// all of them, or a sentence that lists what does not fit.
//
// Two things are forgiven, as in Python: a prefix that all names of the file
// have because a wrapper was saved ("module." of DistributedDataParallel,
// "_orig_mod." of torch.compile), and counters of BatchNorm
// (num_batches_tracked), which files of old versions lack.
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

namespace millrace {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
  bool floating = true;  // else whole numbers or bool
};

// For each tensor of the model its place in `file`, or nothing: then it keeps
// its value. `leave_out` names layers or tensors ("fc", "layer4.1.bn2.weight")
// of which nothing is taken. InvalidArgument: something does not fit, or a name
// to leave out is nowhere.
absl::StatusOr<std::vector<std::optional<size_t>>> MatchWeights(
    const std::vector<NamedShape>& model, const std::vector<NamedShape>& file,
    const std::vector<std::string>& leave_out);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_MATCH_H_
