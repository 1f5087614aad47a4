// Communicator connects the ranks of a job: sums, broadcasts, and averages of
// gradients that overlap with the backward pass (c10d's Reducer, the code that
// Python's DistributedDataParallel uses). Tensors on the CPU use Gloo, those on
// a GPU NCCL. With one rank every call is a no-op.
//
// Every rank must make the same calls in the same order. One thread. When a
// rank dies, or its machine is unreachable for `timeout`, the other ranks end
// with an error that names it (peer_monitor.h): a call fails at once when its
// connections break. A call that is still blocked ten seconds after the loss
// ends the process.
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

namespace millrace::ddp {

class Communicator {
 public:
  struct Options {
    torch::Device device = torch::kCPU;
    // For all ranks to join, and afterwards the max time between two heartbeats
    // of a rank.
    absl::Duration timeout = absl::Minutes(2);
    // Max time of a collective call.
    absl::Duration call_timeout = absl::Minutes(2);
  };

  // Costs of the communication on this rank.
  struct Stats {
    // Time that backward waited for the gradients' average after its own work
    // was done, and time in Sum(). Includes the wait for slower ranks. On a GPU
    // the former is measured every 50th step and extrapolated.
    double allreduce_seconds = 0;
    uint64_t bytes = 0;  // bytes that were summed over the ranks
  };

  // Waits for all ranks. With more than one rank the process then ignores
  // SIGPIPE, unless it handles that signal. DeadlineExceeded: a rank did not
  // join. Unavailable: the name of rank 0's machine has no address (within 15 s
  // or `timeout`). FailedPrecondition or NotFound: several ranks on GPUs that
  // NCCL cannot connect, or some ranks on GPUs and some on CPUs.
  static absl::StatusOr<std::unique_ptr<Communicator>> Join(
      const trainer::RankEnv& env, const Options& options);

  // Without Leave() or Fail() the other ranks find this rank missing.
  virtual ~Communicator() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // In place. Unavailable: another rank is missing; the message names it. For
  // tensors on a GPU this call does not report it: NCCL's watchdog ends the
  // process after the timeout, as it does in Python.
  virtual absl::Status Sum(torch::Tensor& tensor) = 0;
  // Copies rank 0's values to all ranks, in place.
  virtual absl::Status Broadcast(const std::vector<torch::Tensor>& tensors) = 0;

  // From now on backward() averages the gradients over all ranks.
  virtual absl::Status AverageGradientsOf(
      const std::vector<torch::Tensor>& parameters) = 0;
  // Call these around the passes of each training step. They throw libtorch's
  // exceptions, as the passes do. A backward pass without BeforeBackward()
  // averages nothing.
  virtual void BeforeForward() = 0;
  virtual void BeforeBackward() = 0;
  virtual void AfterBackward() = 0;

  // For the error of a pass or a call: an error that names the missing rank
  // when a rank is missing, otherwise `error`.
  virtual absl::Status Explain(absl::Status error) = 0;

  virtual Stats stats() const = 0;

  // At the end of a successful run, with no call in flight: closes the
  // connections in order. No other call may follow.
  virtual absl::Status Leave() = 0;
  // At the end of a failed run: tells the other ranks why and stops monitoring
  // them. No other call may follow.
  virtual void Fail(const absl::Status& why) = 0;
};

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_COMMUNICATOR_H_
