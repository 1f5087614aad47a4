// Parses --train_subset and --eval_subset, which name a part of a dataset. A
// part is a range of positions in a keyed permutation of the samples
// (docs/order.md, Subsets), so a cut at any position is a random split, and the
// same one on every machine.
//
// Pure functions, no thread contract.
//
//   MR_ASSIGN_OR_RETURN(SubsetFlag eval,
//                       ParseSubsetFlag("eval_subset", "48000:60000"));
//   MR_ASSIGN_OR_RETURN(Subset part, eval.Of("digits", 60000));

#ifndef MILLRACE_TRAINER_SUBSET_FLAG_H_
#define MILLRACE_TRAINER_SUBSET_FLAG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::trainer {

struct SubsetFlag {
  std::string flag;  // name of the flag, for messages
  std::string text;
  // Bounds in the permutation: shares of the dataset, 0 to 1, or samples.
  double from = 0;
  double to = 0;
  bool shares = false;

  // The part of a dataset with `samples` samples; without seed and unit.
  // InvalidArgument: the dataset has fewer samples than the flag names.
  absl::StatusOr<Subset> Of(const std::string& dataset, uint64_t samples) const;
};

// "48000:60000" counts samples; "0.8:1.0" or "80%:100%", with a point or a per
// cent sign in either bound, are shares. InvalidArgument names the flag; also
// for "0:1", which reads as a share and would be one sample.
absl::StatusOr<SubsetFlag> ParseSubsetFlag(absl::string_view flag,
                                           absl::string_view text);

// The rest of the dataset without `part`, when that is one range: the part
// starts at the dataset's start or ends at its end. InvalidArgument otherwise.
absl::StatusOr<Subset> RestOf(const Subset& part, const SubsetFlag& flag);

// True when a sample may belong to both.
bool Overlap(const Subset& a, const Subset& b);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SUBSET_FLAG_H_
