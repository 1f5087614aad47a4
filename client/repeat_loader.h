// RepeatBatches() measures what a perfect loader would gain. The loader that it
// returns passes on the first batches of another loader, keeps copies of them
// on their device, and from then on returns these copies in turn, without
// waiting for data. Positions continue as if the batches were new, so steps and
// epochs count as usual. The other loader is closed once all copies exist: its
// threads and servers take no part in the measurement.
//
// What it is not: a way to train. A model that sees the same few batches over
// and over has meaningless losses and accuracies.
//
// Threads, errors and Seek() as DataLoader. The copies are returned themselves,
// many times: a caller that writes into a tensor of a batch changes later
// batches.
//
//   options.repeat_batches = 8;
//   MR_ASSIGN_OR_RETURN(loader, RepeatBatches(std::move(loader), options));

#ifndef MILLRACE_CLIENT_REPEAT_LOADER_H_
#define MILLRACE_CLIENT_REPEAT_LOADER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/loader.h"

namespace millrace {

// `options` are those of `loader`, which has returned no batch yet.
// InvalidArgument: the epochs would end before a batch is repeated.
absl::StatusOr<std::unique_ptr<DataLoader>> RepeatBatches(
    std::unique_ptr<DataLoader> loader, const DataLoader::Options& options);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_REPEAT_LOADER_H_
