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
      {"--momentum is of sgd", [](TrainerConfig& c) { c.momentum = 0.5; }},
      {"--momentum is 1;",
       [](TrainerConfig& c) { c.optimizer = "sgd", c.momentum = 1; }},
      {"--nesterov is of sgd", [](TrainerConfig& c) { c.nesterov = true; }},
      {"--nesterov needs",
       [](TrainerConfig& c) {
         c.optimizer = "sgd", c.nesterov = true, c.momentum = 0;
       }},
      {"--beta1 is of adam",
       [](TrainerConfig& c) { c.optimizer = "sgd", c.beta1 = 0.5; }},
      {"--beta1 is 1;", [](TrainerConfig& c) { c.beta1 = 1; }},
      {"--beta2 is -1;", [](TrainerConfig& c) { c.beta2 = -1; }},
      {"--eps is 0;", [](TrainerConfig& c) { c.eps = 0; }},
      {"--weight_decay", [](TrainerConfig& c) { c.weight_decay = -1; }},
      {"--decay_all needs", [](TrainerConfig& c) { c.decay_all = true; }},
      {"--schedule", [](TrainerConfig& c) { c.schedule = "linear"; }},
      {"--step_epochs is of", [](TrainerConfig& c) { c.step_epochs = 3; }},
      {"--step_epochs is 0",
       [](TrainerConfig& c) { c.schedule = "step", c.step_epochs = 0; }},
      {"--step_gamma is of",
       [](TrainerConfig& c) { c.schedule = "cosine", c.step_gamma = 0.5; }},
      {"--step_gamma is 1",
       [](TrainerConfig& c) { c.schedule = "step", c.step_gamma = 1; }},
      {"--min_lr is of", [](TrainerConfig& c) { c.min_lr = 0; }},
      {"--min_lr is 1;",
       [](TrainerConfig& c) { c.schedule = "cosine", c.min_lr = 1; }},
      {"--warmup_epochs is 2;", [](TrainerConfig& c) { c.warmup_epochs = 2; }},
      {"--label_smoothing", [](TrainerConfig& c) { c.label_smoothing = 1; }},
      {"--accumulate", [](TrainerConfig& c) { c.accumulate = 0; }},
      {"--clip_grad_norm", [](TrainerConfig& c) { c.clip_grad_norm = -1; }},
      {"--ema", [](TrainerConfig& c) { c.ema = 1; }},
      {"--precision", [](TrainerConfig& c) { c.precision = "half"; }},
      {"--loss_scale is of", [](TrainerConfig& c) { c.loss_scale = 2; }},
      {"--loss_scale is 0",
       [](TrainerConfig& c) { c.precision = "float16", c.loss_scale = 0; }},
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
