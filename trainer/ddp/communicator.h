// Communicator joins the ranks of a job: sums, broadcasts, and the averaging of
// gradients that overlaps with the backward pass (c10d's Reducer, the code that
// Python's DistributedDataParallel uses). Tensors on the CPU travel over Gloo,
// those on a GPU over NCCL. With one rank everything here is free.
//
// Every rank must make the same calls in the same order. One thread. A rank
// that dies, or whose machine is gone for `timeout`, ends the others by name
// (roll_call.h): a call fails at once when its connections break; one that
// still waits ten seconds after the rank was missed ends the process.
//
//   MR_ASSIGN_OR_RETURN(auto ranks, Communicator::Join(env, options));
//   MR_RETURN_IF_ERROR(ranks->Broadcast(tensors));
//   MR_RETURN_IF_ERROR(ranks->AverageGradientsOf(parameters));
//   ... each step: ranks->BeforeForward(); logits = forward(x);
//       ranks->BeforeBackward(); loss.backward(); ranks->AfterBackward(); ...

#ifndef MILLRACE_TRAINER_DDP_COMMUNICATOR_H_
#define MILLRACE_TRAINER_DDP_COMMUNICATOR_H_

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/rank_env.h"

namespace millrace {

class Communicator {
 public:
  struct Options {
    torch::Device device = torch::kCPU;
    // For the others to come, and for a sign of life of each afterwards.
    absl::Duration timeout = absl::Minutes(2);
    // For a collective call to end.
    absl::Duration call_timeout = absl::Minutes(2);
  };

  // What this rank spent on the others.
  struct Stats {
    // Time that backward waited for the gradients' average after its own work
    // was done, and time in Sum(). Waiting for ranks that are slower is a part
    // of it. On a GPU the former is measured every 50th step and extrapolated.
    double allreduce_seconds = 0;
    uint64_t bytes = 0;  // that were summed up over the ranks
  };

  // Waits for all ranks. With more than one the process ignores SIGPIPE from
  // now on, unless it handles that signal already. DeadlineExceeded: some did
  // not come. FailedPrecondition or NotFound: several ranks on GPUs that cannot
  // be joined, or some on GPUs and some on CPUs.
  static absl::StatusOr<std::unique_ptr<Communicator>> Join(
      const RankEnv& env, const Options& options);

  // Without Leave the other ranks are left as they are.
  virtual ~Communicator() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // In place. Unavailable: another rank is gone, and which. Of tensors on a GPU
  // that is not told here: NCCL's watchdog ends this process after the timeout,
  // as it does in Python.
  virtual absl::Status Sum(torch::Tensor& tensor) = 0;
  // Rank 0's values for everybody, in place.
  virtual absl::Status Broadcast(const std::vector<torch::Tensor>& tensors) = 0;

  // From now on backward() leaves the mean of all ranks in the gradients.
  virtual absl::Status AverageGradientsOf(
      const std::vector<torch::Tensor>& parameters) = 0;
  // Around the passes of each training step. They throw what libtorch throws,
  // as the passes themselves do. A backward pass without BeforeBackward()
  // leaves the gradients of this rank alone.
  virtual void BeforeForward() = 0;
  virtual void BeforeBackward() = 0;
  virtual void AfterBackward() = 0;

  // Of an exception out of a pass, or the error of a call: names the rank that
  // is missing when one is, and is `error` otherwise.
  virtual absl::Status Explain(absl::Status error) = 0;

  virtual Stats stats() const = 0;

  // At the end of a run that went well, when nothing is under way: closes the
  // connections in order. No other call may follow.
  virtual absl::Status Leave() = 0;
  // At the end of one that failed: tells the other ranks why, and no longer
  // watches them. No other call may follow.
  virtual void Fail(const absl::Status& why) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_DDP_COMMUNICATOR_H_
