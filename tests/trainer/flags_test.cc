#include "trainer/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<TrainFlags> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--endpoint=a:1", "--dataset=d"});
  return ParseTrainFlags(arguments, /*launched=*/false);
}

std::string Mistake(const std::vector<std::string>& arguments) {
  const absl::Status status = Parse(arguments).status();
  EXPECT_TRUE(IsUsageError(status)) << status;
  return std::string(status.message());
}

TEST(TrainFlagsTest, TakeEveryFormThatAbseilsFlagsTook) {
  const auto flags =
      Parse({"-lr", "0.5", "--epochs", "3", "--nochannels_last", "--graph",
             "--momentum=0.8", "--optimizer=sgd", "--init_weights=w.pt",
             "--init_weights_without=fc,layer4.1", "--data_timeout=90",
             "--ignore_value", "-1", "-nnodes=1"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  const TrainerConfig& config = flags->config;
  EXPECT_EQ(config.lr, 0.5);
  EXPECT_EQ(config.epochs, 3);
  EXPECT_FALSE(config.channels_last);
  EXPECT_TRUE(config.graph);
  EXPECT_EQ(config.momentum, 0.8);
  EXPECT_THAT(config.init_weights_without, ElementsAre("fc", "layer4.1"));
  EXPECT_EQ(config.loader.next_timeout, absl::Seconds(90));
  EXPECT_EQ(config.ignore_value, -1);
  EXPECT_EQ(config.flags.size(), 16);
  EXPECT_EQ(flags->launch.ranks, 0);
}

// It was taken for "all outputs", without a word.
TEST(TrainFlagsTest, OutputsWithoutANameAreRefused) {
  EXPECT_THAT(Mistake({"--outputs="}), HasSubstr("flag --outputs=: expected"));
  EXPECT_THAT(Mistake({"--outputs=image", "--outputs="}),
              HasSubstr("flag --outputs=: expected"));
}

// --same_host took no value here, and none but values elsewhere.
TEST(TrainFlagsTest, SameHostHasTheWordsOfTheOtherPrograms) {
  const auto same_host = [](const std::vector<std::string>& arguments) {
    return Parse(arguments)->config.loader.same_host;
  };
  EXPECT_EQ(same_host({}), SameHost::kOff);
  EXPECT_EQ(same_host({"--same_host"}), SameHost::kAuto);
  EXPECT_EQ(same_host({"--same_host=true"}), SameHost::kAuto);
  EXPECT_EQ(same_host({"--nosame_host"}), SameHost::kOff);
  EXPECT_EQ(same_host({"--same_host=require"}), SameHost::kRequire);
  EXPECT_THAT(Mistake({"--same_host=maybe"}),
              HasSubstr("--same_host=maybe: expected off, auto or require"));
}

// Scripts lay their flags over others.
TEST(TrainFlagsTest, TheLastValueHolds) {
  const auto flags = Parse({"--eval_dataset=e", "--seed=7", "--epochs=3",
                            "--epochs=5", "--eval_dataset=f"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->config.epochs, 5);
  EXPECT_EQ(flags->config.eval_dataset, "f");
}

// With an unset shell variable as value a run lost its files, or trained from
// its initial weights, with exit code 0.
TEST(TrainFlagsTest, AnEmptyValueIsRefused) {
  for (const char* flag :
       {"--json=", "--step_losses=", "--audit_dir=", "--tensorboard=",
        "--save_weights=", "--checkpoint=", "--resume=", "--init_weights=",
        "--init_weights_without=", "--pipeline=", "--preset=",
        "--eval_dataset=", "--profile=", "--failed_batch=", "--seed=",
        "--hedge_floor="}) {
    EXPECT_THAT(Mistake({flag}),
                HasSubstr(absl::StrCat("flag ", flag, ": expected a value")));
  }
}

TEST(TrainFlagsTest, StartRanks) {
  const auto flags =
      Parse({"--nproc=2", "--nnodes=3", "--node_rank=1", "--master_addr=h",
             "--stop_grace=0", "--batch_size=60", "--rank_timeout=1m"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->launch.ranks, 2);
  EXPECT_EQ(flags->launch.nodes, 3);
  EXPECT_EQ(flags->launch.node_rank, 1);
  EXPECT_EQ(flags->launch.master_address, "h");
  EXPECT_EQ(flags->launch.master_port, 29500);
  EXPECT_EQ(flags->launch.grace, absl::ZeroDuration());
}

TEST(TrainFlagsTest, NameMistakes) {
  EXPECT_THAT(Mistake({"--epoch=3"}), HasSubstr("did you mean --epochs?"));
  EXPECT_THAT(Mistake({"--momentum=much"}),
              HasSubstr("flag --momentum=much: expected a number"));
  EXPECT_THAT(Mistake({"--data_timeout=inf"}), HasSubstr("at most one year"));
  EXPECT_THAT(Mistake({"--timeout=0"}), HasSubstr("expected a time above 0"));
  EXPECT_THAT(
      Mistake({"--hedge_share=1.5"}),
      HasSubstr("--hedge_share=1.5 is outside the limits: give a share"));
  EXPECT_THAT(Mistake({"--hedge_floor=20ms", "--hedge_share=0"}),
              HasSubstr("--hedge_floor has no effect with --hedge_share=0"));
  EXPECT_THAT(Mistake({"--epochs=0"}), HasSubstr("--epochs is 0"));
  EXPECT_THAT(Mistake({"--optimizer=lamb"}),
              HasSubstr("--optimizer=lamb: expected sgd, adam or adamw"));
  EXPECT_THAT(Mistake({"--schedule=linear"}),
              HasSubstr("--schedule=linear: expected constant"));
  EXPECT_THAT(Mistake({"--precision=half"}),
              HasSubstr("--precision=half: expected float32"));
  EXPECT_THAT(Mistake({"--device=tpu"}),
              HasSubstr("--device=tpu: expected auto, cpu or cuda"));
  EXPECT_THAT(Mistake({"--node_rank=1"}),
              HasSubstr("--node_rank has no effect without --nproc"));
  EXPECT_THAT(Mistake({"--nproc=2", "--nnodes=0"}), HasSubstr("--nnodes is 0"));
  EXPECT_THAT(Mistake({"--nproc=3", "--batch_size=64"}),
              HasSubstr("make it a multiple of 3"));
}

TEST(TrainFlagsTest, ReplayBatchesIsTheFormerNameOfRepeatBatches) {
  EXPECT_EQ(Parse({"--replay_batches=3"})->config.repeat_batches, 3u);
}

TEST(TrainFlagsTest, HelpAndVersionNeedNoOtherFlag) {
  for (const char* help : {"--help", "-help", "-h", "--helpfull"}) {
    const auto flags = ParseTrainFlags({help}, /*launched=*/false);
    ASSERT_TRUE(flags.ok()) << flags.status();
    EXPECT_THAT(flags->help, HasSubstr("\nOptimisation:\n  --optimizer="));
    size_t begin = 0;
    while (begin < flags->help.size()) {
      const size_t end = flags->help.find('\n', begin);
      EXPECT_LE(end - begin, 80) << flags->help.substr(begin, end - begin);
      begin = end + 1;
    }
  }
  const auto version = ParseTrainFlags({"--version"}, /*launched=*/false);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_TRUE(version->version);
}

}  // namespace
}  // namespace millrace::trainer
