// The rank of this process, from the environment that torchrun or --nproc sets:
// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.

#ifndef MILLRACE_TRAINER_RANK_ENV_H_
#define MILLRACE_TRAINER_RANK_ENV_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::trainer {

struct RankEnv {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;        // on this machine
  uint32_t local_world_size = 1;  // processes on this machine
  std::string
      master_address;  // host of the store, which rank 0 or torchrun runs
  uint16_t master_port = 0;
  // A socket that already listens on that port, for rank 0; -1: none.
  int master_fd = -1;
  // torchrun runs the store, across all restarts of the job.
  bool agent_store = false;
  uint32_t restart = 0;
};

// The variable's value; nothing when it is not set.
using GetVariable =
    std::function<std::optional<std::string>(absl::string_view)>;

std::optional<std::string> GetEnvironmentVariable(absl::string_view name);

// A single rank when neither RANK nor WORLD_SIZE is set. InvalidArgument: a
// variable is missing or invalid; the message names it.
absl::StatusOr<RankEnv> ReadRankEnv(
    const GetVariable& get = GetEnvironmentVariable);

// The GPU of this rank, among the `gpus` that a process on this machine sees:
// the one with the rank's local number. FailedPrecondition: more ranks than
// GPUs run on this machine, and NCCL needs one for each.
absl::StatusOr<uint32_t> GpuOf(const RankEnv& env, uint32_t gpus);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANK_ENV_H_
