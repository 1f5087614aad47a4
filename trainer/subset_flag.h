// What --train_subset and --eval_subset say: which part of a dataset is meant.
// A part is a range of places in a keyed permutation of the samples
// (docs/order.md, Subsets), so a cut at any place is a random split, and the
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

namespace millrace {

struct SubsetFlag {
  std::string flag;  // its name, for messages
  std::string text;
  // Places in the permutation: shares of the dataset, 0 to 1, or samples.
  double from = 0;
  double to = 0;
  bool shares = false;

  // Of a dataset with so many samples; without seed and unit. InvalidArgument:
  // it has fewer than are named.
  absl::StatusOr<Subset> Of(const std::string& dataset, uint64_t samples) const;
};

// "48000:60000" counts samples, "0.8:1.0" or "80%:100%" are shares: with a
// point or a per cent sign in either bound. InvalidArgument names the flag; also
// for "0:1", which reads as a share and would be one sample.
absl::StatusOr<SubsetFlag> ParseSubsetFlag(absl::string_view flag,
                                           absl::string_view text);

// What `part` leaves of the dataset, when that is one range: the part begins at
// the dataset's begin or ends at its end. InvalidArgument otherwise.
absl::StatusOr<Subset> RestOf(const Subset& part, const SubsetFlag& flag);

// Whether a sample may belong to both.
bool Overlap(const Subset& a, const Subset& b);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_SUBSET_FLAG_H_
