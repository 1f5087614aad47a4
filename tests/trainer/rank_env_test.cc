#include "trainer/rank_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<RankEnv> Read(const Variables& variables) {
  return ReadRankEnv(
      [&variables](absl::string_view name) -> std::optional<std::string> {
        auto it = variables.find(std::string(name));
        if (it == variables.end()) return std::nullopt;
        return it->second;
      });
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node-0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

TEST(RankEnv, IsOneRankWithoutVariables) {
  auto env = Read({});
  ASSERT_TRUE(env.ok());
  EXPECT_EQ(env->rank, 0u);
  EXPECT_EQ(env->world_size, 1u);
}

TEST(RankEnv, ReadsWhatTorchrunSets) {
  auto env = Read(kTorchrun);
  ASSERT_TRUE(env.ok()) << env.status();
  EXPECT_EQ(env->rank, 3u);
  EXPECT_EQ(env->world_size, 4u);
  EXPECT_EQ(env->local_rank, 1u);
  EXPECT_EQ(env->local_world_size, 2u);
  EXPECT_EQ(env->master_address, "node-0");
  EXPECT_EQ(env->master_port, 29500);
  EXPECT_TRUE(env->agent_store);
  EXPECT_EQ(env->restart, 2u);
  EXPECT_EQ(env->master_fd, -1);
}

TEST(RankEnv, NamesTheVariableThatIsWrong) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"RANK", "4"},       {"RANK", "-1"},        {"RANK", "x"},
      {"WORLD_SIZE", "0"}, {"MASTER_PORT", "0"},  {"MASTER_PORT", "70000"},
      {"MASTER_ADDR", ""}, {"LOCAL_RANK", "one"}, {"LOCAL_WORLD_SIZE", "0"},
  };
  for (const auto& [name, value] : kWrong) {
    Variables variables = kTorchrun;
    variables[name] = value;
    auto env = Read(variables);
    EXPECT_TRUE(absl::IsInvalidArgument(env.status())) << name << value;
    EXPECT_THAT(std::string(env.status().message()), HasSubstr(name));
  }
  for (const char* name :
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = kTorchrun;
    variables.erase(name);
    EXPECT_THAT(std::string(Read(variables).status().message()),
                HasSubstr(name));
  }
}

TEST(GpuOf, IsTheLocalRank) {
  RankEnv env;
  env.rank = 9;
  env.world_size = 16;
  env.local_rank = 1;
  env.local_world_size = 8;
  EXPECT_EQ(GpuOf(env, 8).value(), 1u);
  EXPECT_EQ(GpuOf(RankEnv(), 1).value(), 0u);
}

TEST(GpuOf, RefusesMoreRanksThanGpus) {
  RankEnv env;
  env.local_world_size = 3;
  const auto gpu = GpuOf(env, 2);
  EXPECT_EQ(gpu.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(gpu.status().message()),
              AllOf(HasSubstr("3 ranks"), HasSubstr("2 CUDA devices"),
                    HasSubstr("--nproc")));
  // Who starts ranks by hand may forget LOCAL_WORLD_SIZE.
  env.local_world_size = 1;
  env.local_rank = 2;
  EXPECT_EQ(GpuOf(env, 2).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace::trainer
