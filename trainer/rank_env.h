// Which rank this process is, as torchrun or --nproc tells it through the
// environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT.

#ifndef MILLRACE_TRAINER_RANK_ENV_H_
#define MILLRACE_TRAINER_RANK_ENV_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct RankEnv {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;        // on this machine
  uint32_t local_world_size = 1;  // processes on this machine
  std::string master_address;     // where rank 0 (or torchrun) keeps the store
  uint16_t master_port = 0;
  // A socket that already listens on that port, for rank 0; -1: none.
  int master_fd = -1;
  // torchrun keeps the store itself, for all restarts of the job.
  bool agent_store = false;
  uint32_t restart = 0;
};

// The variable of that name; nothing when it is not set.
using GetVariable =
    std::function<std::optional<std::string>(absl::string_view)>;

std::optional<std::string> GetEnvironmentVariable(absl::string_view name);

// A single rank when neither RANK nor WORLD_SIZE is set. InvalidArgument names
// the variable that is missing or makes no sense.
absl::StatusOr<RankEnv> ReadRankEnv(
    const GetVariable& get = GetEnvironmentVariable);

// The GPU that this rank takes, of those that a process on this machine sees:
// that of its local rank. FailedPrecondition: there are more ranks on this
// machine than GPUs, and NCCL needs one of its own for each.
absl::StatusOr<uint32_t> GpuOf(const RankEnv& env, uint32_t gpus);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_RANK_ENV_H_
