#include "trainer/rank_env.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::trainer {
namespace {

absl::StatusOr<uint32_t> ReadNumber(const GetVariable& get,
                                    absl::string_view name,
                                    std::optional<uint32_t> otherwise) {
  const std::optional<std::string> text = get(name);
  if (!text.has_value()) {
    if (otherwise.has_value()) return *otherwise;
    return absl::InvalidArgumentError(
        absl::StrCat("the environment has no ", name,
                     ", but has other variables of a rank; start the ranks "
                     "with torchrun or --nproc, or unset RANK and WORLD_SIZE"));
  }
  uint32_t value = 0;
  if (!absl::SimpleAtoi(*text, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the environment's ", name, " is \"", *text, "\", not a number"));
  }
  return value;
}

}  // namespace

std::optional<std::string> GetEnvironmentVariable(absl::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::StatusOr<RankEnv> ReadRankEnv(const GetVariable& get) {
  RankEnv env;
  if (!get("RANK").has_value() && !get("WORLD_SIZE").has_value()) return env;
  MR_ASSIGN_OR_RETURN(env.rank, ReadNumber(get, "RANK", std::nullopt));
  MR_ASSIGN_OR_RETURN(env.world_size,
                      ReadNumber(get, "WORLD_SIZE", std::nullopt));
  MR_ASSIGN_OR_RETURN(env.local_rank, ReadNumber(get, "LOCAL_RANK", 0));
  MR_ASSIGN_OR_RETURN(env.local_world_size,
                      ReadNumber(get, "LOCAL_WORLD_SIZE", 1));
  MR_ASSIGN_OR_RETURN(env.restart,
                      ReadNumber(get, "TORCHELASTIC_RESTART_COUNT", 0));
  env.agent_store = get("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (env.world_size < 1 || env.rank >= env.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the environment's RANK is ", env.rank,
                     ", but WORLD_SIZE is ", env.world_size));
  }
  if (env.local_world_size < 1) {
    return absl::InvalidArgumentError(
        "the environment's LOCAL_WORLD_SIZE is 0");
  }
  if (env.world_size == 1) return env;
  const std::optional<std::string> address = get("MASTER_ADDR");
  if (!address.has_value() || address->empty()) {
    return absl::InvalidArgumentError(
        "the environment has no MASTER_ADDR; set it to the host of rank 0");
  }
  env.master_address = *address;
  MR_ASSIGN_OR_RETURN(uint32_t port,
                      ReadNumber(get, "MASTER_PORT", std::nullopt));
  if (port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the environment's MASTER_PORT is ", port, "; give 1 to 65535"));
  }
  env.master_port = static_cast<uint16_t>(port);
  if (env.rank == 0 && get("MILLRACE_MASTER_FD").has_value()) {
    MR_ASSIGN_OR_RETURN(uint32_t fd,
                        ReadNumber(get, "MILLRACE_MASTER_FD", std::nullopt));
    env.master_fd = static_cast<int>(fd);
  }
  return env;
}

absl::StatusOr<uint32_t> GpuOf(const RankEnv& env, uint32_t gpus) {
  const uint32_t ranks = std::max(env.local_world_size, env.local_rank + 1);
  if (ranks > gpus) {
    return absl::FailedPreconditionError(absl::StrCat(
        ranks, " ranks run on this machine, but each sees ", gpus,
        gpus == 1 ? " CUDA device" : " CUDA devices",
        "; start at most one rank for each device (--nproc, or torchrun's "
        "--nproc-per-node), check CUDA_VISIBLE_DEVICES, or use --device=cpu"));
  }
  return env.local_rank;
}

}  // namespace millrace::trainer
