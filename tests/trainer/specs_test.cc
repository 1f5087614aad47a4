#include "trainer/specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<DatasetInfo> Describe(const std::string& dataset) {
  DatasetInfo info;
  if (dataset == "photos") {
    info.set_train_preset("imagenet_train");
    info.set_eval_preset("imagenet_eval");
    info.set_samples(60000);
  } else if (dataset == "gone") {
    return absl::NotFoundError("no dataset gone");
  }
  return info;
}

TrainerConfig Config() {
  TrainerConfig config;
  config.loader.endpoint = "localhost:1";
  config.dataset = "photos";
  config.batch_size = 32;
  config.seed = 5;
  return config;
}

std::string WriteFile(const std::string& text,
                      const std::string& name = "pipeline.textproto") {
  const std::string path = ::testing::TempDir() + "/" + name;
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
  EXPECT_EQ(specs->train_from,
            "the preset imagenet_train, which the dataset photos recommends");
  EXPECT_EQ(specs->eval_from,
            "the preset imagenet_eval, which the dataset photos recommends");
  config.preset = "mnist";
  config.eval_pipeline = WriteFile("transforms { decode_image {} }");
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train_from, "--preset=mnist");
  EXPECT_EQ(specs->eval_from, "--eval_pipeline=" + config.eval_pipeline);
}

TEST(Specs, OutputsAreThoseOfBothUnlessAFileSaysTheEvaluations) {
  TrainerConfig config = Config();
  config.eval_dataset = "photos";
  config.outputs = "image,label";
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->train.outputs_size(), 2);
  EXPECT_EQ(specs->train.outputs(1).field(), "label");
  EXPECT_EQ(specs->eval->outputs_size(), 2);
  config.eval_pipeline = WriteFile("outputs { field: 'mask' }");
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.outputs_size(), 2);
  ASSERT_EQ(specs->eval->outputs_size(), 1);
  EXPECT_EQ(specs->eval->outputs(0).field(), "mask");
}

// As `millrace bench` does: vectors and tokens need no transform.
TEST(Specs, TakeSamplesAsTheyAreWhenTheDatasetRecommendsNothing) {
  TrainerConfig config = Config();
  config.dataset = "plain";
  config.eval_dataset = "plain";
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).dataset(), "plain");
  EXPECT_EQ(specs->train.preset(), "");
  EXPECT_TRUE(specs->train.transforms().empty());
  EXPECT_EQ(specs->eval->preset(), "");
  EXPECT_EQ(specs->train_from,
            "no preset (the dataset plain recommends none: samples as they are "
            "stored)");
  config.preset = "mnist";
  EXPECT_EQ(MakeSpecs(config, Describe)->train.preset(), "mnist");
  config.preset = "";
  config.eval_dataset = "";
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
  config.seed.reset();
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).dataset(), "other");
  EXPECT_EQ(specs->train.batch_size(), 8u);
  EXPECT_EQ(specs->train.seed(), 9u);
  EXPECT_EQ(specs->train.last_batch(), LAST_BATCH_PAD);
  config.dataset = "photos";
  config.batch_size = 16;
  config.seed = 0;
  config.last_batch = "drop";
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).dataset(), "photos");
  EXPECT_EQ(specs->train.batch_size(), 16u);
  EXPECT_EQ(specs->train.seed(), 0u) << "0 is a seed";
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
      {"--endpoint", [](TrainerConfig& c) { c.loader.endpoint = ""; }},
      {"--dataset", [](TrainerConfig& c) { c.dataset = ""; }},
      {"--model", [](TrainerConfig& c) { c.model = "vgg"; }},
      {"--last_batch", [](TrainerConfig& c) { c.last_batch = "partial"; }},
      {"--epochs", [](TrainerConfig& c) { c.epochs = 0; }},
      {"--lr", [](TrainerConfig& c) { c.lr = -1; }},
      {"--momentum applies only to sgd",
       [](TrainerConfig& c) { c.momentum = 0.5; }},
      {"--momentum is 1;",
       [](TrainerConfig& c) { c.optimizer = "sgd", c.momentum = 1; }},
      {"--nesterov applies only to sgd",
       [](TrainerConfig& c) { c.nesterov = true; }},
      {"--nesterov needs",
       [](TrainerConfig& c) {
         c.optimizer = "sgd", c.nesterov = true, c.momentum = 0;
       }},
      {"--beta1 applies only to adam",
       [](TrainerConfig& c) { c.optimizer = "sgd", c.beta1 = 0.5; }},
      {"--beta1 is 1;", [](TrainerConfig& c) { c.beta1 = 1; }},
      {"--beta2 is -1;", [](TrainerConfig& c) { c.beta2 = -1; }},
      {"--eps is 0;", [](TrainerConfig& c) { c.eps = 0; }},
      {"--weight_decay", [](TrainerConfig& c) { c.weight_decay = -1; }},
      {"--decay_all needs", [](TrainerConfig& c) { c.decay_all = true; }},
      {"--step_epochs applies only to",
       [](TrainerConfig& c) { c.step_epochs = 3; }},
      {"--step_epochs is 0",
       [](TrainerConfig& c) { c.schedule = "step", c.step_epochs = 0; }},
      {"--step_gamma applies only to",
       [](TrainerConfig& c) { c.schedule = "cosine", c.step_gamma = 0.5; }},
      {"--step_gamma is 1",
       [](TrainerConfig& c) { c.schedule = "step", c.step_gamma = 1; }},
      {"--min_lr applies only to", [](TrainerConfig& c) { c.min_lr = 0; }},
      {"--min_lr is 1;",
       [](TrainerConfig& c) { c.schedule = "cosine", c.min_lr = 1; }},
      {"--warmup_epochs is 2;", [](TrainerConfig& c) { c.warmup_epochs = 2; }},
      {"--label_smoothing", [](TrainerConfig& c) { c.label_smoothing = 1; }},
      {"--accumulate", [](TrainerConfig& c) { c.accumulate = 0; }},
      {"--clip_grad_norm", [](TrainerConfig& c) { c.clip_grad_norm = -1; }},
      {"--ema", [](TrainerConfig& c) { c.ema = 1; }},
      {"--loss_scale applies only to",
       [](TrainerConfig& c) { c.loss_scale = 2; }},
      {"--loss_scale is 0",
       [](TrainerConfig& c) { c.precision = "float16", c.loss_scale = 0; }},
      {"--classes is 1", [](TrainerConfig& c) { c.classes = 1; }},
      {"--classes is 100000000",
       [](TrainerConfig& c) { c.classes = 100000000; }},
      {"--profile_steps has no effect without --profile",
       [](TrainerConfig& c) { c.profile_steps = "5-9"; }},
      {"--checkpoint_every has no effect without --checkpoint",
       [](TrainerConfig& c) { c.checkpoint_every = 5; }},
      {"--prepare_ahead has no effect with --device=cuda",
       [](TrainerConfig& c) { c.device = "cuda", c.prepare_ahead = true; }},
      {"--rank_timeout is not above 0",
       [](TrainerConfig& c) { c.rank_timeout = absl::Seconds(0); }},
      {"--checkpoint and --repeat_batches=2",
       [](TrainerConfig& c) { c.repeat_batches = 2, c.checkpoint = "x"; }},
      {"--audit_dir and --repeat_batches",
       [](TrainerConfig& c) { c.repeat_batches = 2, c.audit_dir = "x"; }},
      {"--step_losses and --repeat_batches",
       [](TrainerConfig& c) { c.repeat_batches = 2, c.step_losses = "x"; }},
      {"--save_weights and --repeat_batches",
       [](TrainerConfig& c) { c.repeat_batches = 2, c.save_weights = "x.pt"; }},
      {"--max_steps ends the run",
       [](TrainerConfig& c) { c.repeat_batches = 2, c.max_steps = 2; }},
      {"--max_steps ends the run",
       [](TrainerConfig& c) {
         c.repeat_batches = 5, c.max_steps = 2, c.accumulate = 2;
       }},
      {"--preset", [](TrainerConfig& c) { c.preset = c.pipeline = "x"; }},
      {"--eval_preset has no effect without --eval_dataset or --eval_subset",
       [](TrainerConfig& c) { c.eval_preset = "x"; }},
      {"--eval_pipeline has no effect without --eval_dataset or --eval_subset",
       [](TrainerConfig& c) { c.eval_pipeline = "x"; }},
  };
  EXPECT_TRUE(Config().Validate().ok());
  for (const auto& [flag, change] : kMistakes) {
    TrainerConfig config = Config();
    change(config);
    EXPECT_THAT(std::string(config.Validate().message()), HasSubstr(flag));
  }
  TrainerConfig repeats = Config();
  repeats.repeat_batches = 3;
  repeats.max_steps = 2;
  repeats.accumulate = 2;
  EXPECT_TRUE(repeats.Validate().ok()) << "the fourth batch is a repeat";
}

TEST(Specs, CutOneDatasetForTrainingAndEvaluation) {
  TrainerConfig config = Config();
  config.eval_subset = "48000:60000";
  config.subset_seed = 7;
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_TRUE(specs->eval.has_value());
  EXPECT_EQ(specs->eval_name, "photos[48000:60000]");
  EXPECT_EQ(specs->eval->preset(), "imagenet_eval");
  const Subset eval = specs->eval->sources(0).subset();
  const Subset train = specs->train.sources(0).subset();
  EXPECT_EQ(specs->eval->sources(0).dataset(), "photos");
  EXPECT_EQ(eval.from(), 0.8);
  EXPECT_EQ(eval.to(), 1);
  EXPECT_EQ(train.from(), 0);
  EXPECT_EQ(train.to(), 0.8) << "training takes the rest";
  EXPECT_EQ(train.seed(), 7u);
  EXPECT_EQ(eval.seed(), 7u);

  config.train_subset = "0%:50%";
  config.subset_unit = 64;
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).subset().to(), 0.5);
  EXPECT_EQ(specs->train.sources(0).subset().unit(), 64u);
  EXPECT_EQ(specs->eval->sources(0).subset().unit(), 64u);

  // The rest of another dataset is not what training is about.
  config = Config();
  config.eval_dataset = "others";
  config.eval_preset = "imagenet_eval";
  config.eval_subset = "0:0.5";
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_FALSE(specs->train.sources(0).has_subset());
  EXPECT_EQ(specs->eval->sources(0).subset().to(), 0.5);

  // A part without an evaluation.
  config = Config();
  config.train_subset = "0:600";
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->train.sources(0).subset().to(), 0.01);
  EXPECT_FALSE(specs->eval.has_value());
}

// An accuracy on the training's own samples was printed without a word.
TEST(Specs, SayWhenTheEvaluationSharesSamplesWithTheTraining) {
  TrainerConfig config = Config();
  config.eval_dataset = "photos";
  config.eval_preset = "imagenet_eval";
  auto specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(specs->shared_samples, HasSubstr("samples of photos"));

  // Other cuts of one dataset: nothing keeps them apart.
  config = Config();
  config.dataset = "";
  config.pipeline = WriteFile(
      "sources { dataset: 'photos' subset { to: 0.8 seed: 1 } } preset: 'x'");
  config.eval_pipeline = WriteFile(
      "sources { dataset: 'photos' subset { from: 0.8 seed: 2 } } preset: 'x'",
      "eval.textproto");
  config.eval_dataset = "photos";
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(specs->shared_samples, HasSubstr("samples of photos"));

  // The rest of the same cut, another dataset, no evaluation.
  config.eval_pipeline = WriteFile(
      "sources { dataset: 'photos' subset { from: 0.8 seed: 1 } } preset: 'x'",
      "eval.textproto");
  specs = MakeSpecs(config, Describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->shared_samples, "");
  config = Config();
  config.eval_subset = "0.8:1";
  EXPECT_EQ(MakeSpecs(config, Describe)->shared_samples, "");
  config.eval_subset = "";
  config.eval_dataset = "others";
  config.eval_preset = "imagenet_eval";
  EXPECT_EQ(MakeSpecs(config, Describe)->shared_samples, "");
  EXPECT_EQ(MakeSpecs(Config(), Describe)->shared_samples, "");
}

// The same files were served under two names, and nothing was said.
TEST(Specs, KnowADatasetThatHasTwoNames) {
  int asked = 0;
  const auto describe = [&asked](const std::string& dataset) {
    ++asked;
    absl::StatusOr<DatasetInfo> info = Describe(dataset);
    if (!info.ok()) return info;
    const bool copy = dataset == "photos" || dataset == "same";
    info->set_fingerprint(copy ? "of the photos" : "of " + dataset);
    if (dataset == "old") info->clear_fingerprint();
    return info;
  };
  TrainerConfig config = Config();
  config.preset = "mnist";
  config.eval_dataset = "same";
  config.eval_preset = "mnist";
  auto specs = MakeSpecs(config, describe);
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(specs->shared_samples,
              HasSubstr("samples of same, which has the same content as "
                        "photos, that the model is trained on"));
  EXPECT_EQ(asked, 2);

  // Parts of one cut that do not overlap need no answer.
  config.train_subset = "0:0.5";
  config.eval_subset = "0.5:1";
  asked = 0;
  EXPECT_EQ(MakeSpecs(config, describe)->shared_samples, "");
  EXPECT_EQ(asked, 0);

  config.train_subset = config.eval_subset = "";
  for (const char* other : {"others", "old", "gone"}) {
    config.eval_dataset = other;
    EXPECT_EQ(MakeSpecs(config, describe)->shared_samples, "") << other;
  }
}

TEST(Specs, RefuseCutsThatDoNotFit) {
  struct Case {
    std::string train, eval, expected;
  };
  for (const Case& c :
       {Case{"0:0.9", "0.8:1.0", "share samples of photos"},
        Case{"", "100:200", "two pieces"},
        Case{"", "0:60000", "leaves no samples for training"},
        Case{"", "0:60001", "60,000 samples of photos"},
        Case{"5:5", "", "--train_subset=5:5: expected FROM:TO"},
        Case{"", "0:1",
             "--eval_subset=0:1 is one sample, because whole numbers count "
             "samples"},
        Case{"0:1", "",
             "--train_subset=0:1 is one sample, because whole numbers count "
             "samples"},
        Case{"", "half", "--eval_subset=half: expected"},
        Case{"", "0.5:1.5", "expected"}, Case{"", "-1:5", "expected"},
        Case{"", "nan:0.5", "expected"}, Case{"1:2:3", "", "expected"}}) {
    TrainerConfig config = Config();
    config.train_subset = c.train;
    config.eval_subset = c.eval;
    const auto specs = MakeSpecs(config, Describe);
    EXPECT_TRUE(absl::IsInvalidArgument(specs.status())) << specs.status();
    EXPECT_THAT(std::string(specs.status().message()), HasSubstr(c.expected));
  }
  TrainerConfig config = Config();
  config.dataset = "";
  config.pipeline = WriteFile(
      "sources { dataset: 'a' } sources { dataset: 'b' } preset: 'x'");
  config.train_subset = "0:0.5";
  EXPECT_THAT(std::string(MakeSpecs(config, Describe).status().message()),
              HasSubstr("2 sources"));
  // Both cut otherwise, so nobody knows whether they touch.
  config = Config();
  config.subset_seed = 3;
  EXPECT_THAT(std::string(config.Validate().message()),
              HasSubstr("--subset_seed has no effect without --train_subset "
                        "or --eval_subset"));
  config.eval_subset = "0.5:1.0";
  EXPECT_TRUE(config.Validate().ok());
  config.eval_subset = "0.5:x";
  EXPECT_THAT(std::string(config.Validate().message()),
              HasSubstr("--eval_subset=0.5:x"));
}

}  // namespace
}  // namespace millrace::trainer
