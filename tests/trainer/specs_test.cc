#include "trainer/specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace millrace {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<DatasetInfo> Describe(const std::string& dataset) {
  DatasetInfo info;
  if (dataset == "photos") {
    info.set_train_preset("imagenet_train");
    info.set_eval_preset("imagenet_eval");
  } else if (dataset == "gone") {
    return absl::NotFoundError("no dataset gone");
  }
  return info;
}

TrainerConfig Config() {
  TrainerConfig config;
  config.endpoint = "localhost:1";
  config.dataset = "photos";
  config.batch_size = 32;
  config.seed = 5;
  return config;
}

std::string WriteFile(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/pipeline.textproto";
  std::ofstream(path) << text;
  return path;
}

TEST(Specs, TakeWhatTheDatasetsRecommend) {
  TrainerConfig config = Config();
  config.eval_dataset = "photos";
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.preset(), "imagenet_train");
  EXPECT_EQ(specs->train.batch_size(), 32u);
  EXPECT_EQ(specs->train.seed(), 5u);
  EXPECT_EQ(specs->train.last_batch(), LAST_BATCH_DROP);
  EXPECT_EQ(specs->train.shuffle().mode(), Shuffle::GLOBAL);
  ASSERT_TRUE(specs->eval.has_value());
  EXPECT_EQ(specs->eval->preset(), "imagenet_eval");
  EXPECT_EQ(specs->eval->last_batch(), LAST_BATCH_PARTIAL);
  EXPECT_EQ(specs->eval->shuffle().mode(), Shuffle::SEQUENTIAL);
}

TEST(Specs, AskForAPresetWhenTheDatasetRecommendsNone) {
  TrainerConfig config = Config();
  config.dataset = "plain";
  auto specs = MakeSpecs(config, Describe);
  EXPECT_THAT(std::string(specs.status().message()), HasSubstr("--preset"));
  config.preset = "mnist";
  EXPECT_TRUE(MakeSpecs(config, Describe).ok());
  config.preset = "";
  config.dataset = "gone";
  EXPECT_TRUE(absl::IsNotFound(MakeSpecs(config, Describe).status()));
}

TEST(Specs, FlagsReplaceWhatAPipelineFileSays) {
  TrainerConfig config = Config();
  config.pipeline = WriteFile(
      "sources { dataset: 'other' } batch_size: 8 seed: 9 "
      "last_batch: LAST_BATCH_PAD");
  config.dataset = "";
  config.batch_size = 0;
  config.seed = 0;
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).dataset(), "other");
  EXPECT_EQ(specs->train.batch_size(), 8u);
  EXPECT_EQ(specs->train.seed(), 9u);
  EXPECT_EQ(specs->train.last_batch(), LAST_BATCH_PAD);
  config.dataset = "photos";
  config.batch_size = 16;
  config.last_batch = "drop";
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).dataset(), "photos");
  EXPECT_EQ(specs->train.batch_size(), 16u);
  EXPECT_EQ(specs->train.last_batch(), LAST_BATCH_DROP);
}

TEST(Specs, RefuseAPipelineThatIsNoneOrCannotTrain) {
  TrainerConfig config = Config();
  config.pipeline = WriteFile("batch_size: 8\nno_such_field: 1\n");
  EXPECT_THAT(std::string(MakeSpecs(config, Describe).status().message()),
              HasSubstr(":2:"));
  config.pipeline = WriteFile("last_batch: LAST_BATCH_PARTIAL");
  EXPECT_THAT(std::string(MakeSpecs(config, Describe).status().message()),
              HasSubstr("PARTIAL"));
  config.pipeline = "/no/such/file";
  EXPECT_TRUE(absl::IsNotFound(MakeSpecs(config, Describe).status()));
}

TEST(Config, RefusesEachMistakeByItsFlag) {
  using Change = void (*)(TrainerConfig&);
  const std::pair<const char*, Change> kMistakes[] = {
      {"--endpoint", [](TrainerConfig& c) { c.endpoint = ""; }},
      {"--dataset", [](TrainerConfig& c) { c.dataset = ""; }},
      {"--model", [](TrainerConfig& c) { c.model = "vgg"; }},
      {"--optimizer", [](TrainerConfig& c) { c.optimizer = "lamb"; }},
      {"--last_batch", [](TrainerConfig& c) { c.last_batch = "partial"; }},
      {"--device", [](TrainerConfig& c) { c.device = "tpu"; }},
      {"--epochs", [](TrainerConfig& c) { c.epochs = 0; }},
      {"--lr", [](TrainerConfig& c) { c.lr = -1; }},
      {"--momentum", [](TrainerConfig& c) { c.momentum = 1; }},
      {"--timeout", [](TrainerConfig& c) { c.timeout = absl::Seconds(0); }},
      {"--preset", [](TrainerConfig& c) { c.preset = c.pipeline = "x"; }},
      {"--eval_dataset", [](TrainerConfig& c) { c.eval_preset = "x"; }},
  };
  EXPECT_TRUE(Config().Validate().ok());
  for (const auto& [flag, change] : kMistakes) {
    TrainerConfig config = Config();
    change(config);
    EXPECT_THAT(std::string(config.Validate().message()), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace millrace
