// RepeatBatches tells what a perfect loader would gain: it passes on the first
// batches of a loader, keeps copies of them on their device, and from then on
// gives out those copies, in turn, without waiting for anything. Positions go
// on as if the batches were new, so that steps and epochs count as always. The
// loader behind is closed when it is no longer needed, so its threads and its
// servers do not take part in what is measured.
//
// What is trained like this has seen the same few batches over and over: its
// losses and accuracies mean nothing.
//
// Threads, errors and Seek() as DataLoader says. The copies are given out
// themselves, many times: whoever writes into a tensor of a batch changes the
// batches that come later.
//
//   options.replay_batches = 8;
//   MR_ASSIGN_OR_RETURN(loader, RepeatBatches(std::move(loader), options));

#ifndef MILLRACE_CLIENT_REPLAY_LOADER_H_
#define MILLRACE_CLIENT_REPLAY_LOADER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/loader.h"

namespace millrace {

// InvalidArgument: replay_batches beside an option that it excludes.
absl::Status ValidateReplay(const DataLoader::Options& options);

// `options` are those of `loader`, which has given out nothing yet.
// InvalidArgument: it would end before anything is repeated.
absl::StatusOr<std::unique_ptr<DataLoader>> RepeatBatches(
    std::unique_ptr<DataLoader> loader, const DataLoader::Options& options);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_REPLAY_LOADER_H_
