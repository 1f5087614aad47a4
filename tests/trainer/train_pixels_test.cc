// Training on masks, vectors and tokens, as a user starts it: the data are made
// up by the server's operator (tests/testing/operators/shapes.c).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/train_world.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Pixels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("OMP_NUM_THREADS", "1", 1);
    auto started = ServerProcess::Start(
        {"--operators=" + ProgramPath("tests/testing/operators/shapes.so"),
         "--dataset=shapes=shapes:96", "--dataset=others=shapes:33",
         "--dataset=rows=rows:96", "--threads=1"});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started).release();
  }
  static void TearDownTestSuite() { delete server_; }

  static ProgramResult Run(const std::vector<std::string>& flags) {
    std::vector<std::string> command = {ProgramPath("trainer/millrace-train"),
                                        "--endpoint=" + server_->address(),
                                        "--seed=1", "--batch_size=8"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProgram(command);
  }
  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  // Crops of 32 pixels; outside of a photograph lies 255.
  std::string Pipeline() const {
    WriteFile(Path("crops.textproto"),
              "field_roles { field: 'mask' role: MASK fill: 255 } "
              "transforms { random_affine { fields: ['image', 'mask'] "
              "  degrees_min: -20 degrees_max: 20 } } "
              "transforms { random_resized_crop { fields: ['image', 'mask'] "
              "  height: 32 width: 32 scale_min: 0.6 scale_max: 1 } } "
              "transforms { normalize { mean: [0.3, 0.3, 0.3] "
              "  stddev: [0.2, 0.2, 0.2] } } ");
    return "--pipeline=" + Path("crops.textproto");
  }
  std::string EvalPipeline() const {
    WriteFile(Path("middle.textproto"),
              "field_roles { field: 'mask' role: MASK fill: 255 } "
              "transforms { center_crop { fields: ['image', 'mask'] "
              "  height: 32 width: 32 } } "
              "transforms { normalize { mean: [0.3, 0.3, 0.3] "
              "  stddev: [0.2, 0.2, 0.2] } } ");
    return "--eval_pipeline=" + Path("middle.textproto");
  }
  std::vector<double> Losses(const std::string& name) const {
    std::istringstream lines(ReadFile(Path(name)));
    std::vector<double> losses;
    double epoch, step, loss;
    while (lines >> epoch >> step >> loss) losses.push_back(loss);
    return losses;
  }

  static inline ServerProcess* server_ = nullptr;
  const std::string folder_ = NewTempDir();
};

// Both outlines and what is in them; 33 samples are no multiple of the batch.
TEST_F(Pixels, LearnsMasksOfClassesAlikeWithOneRankAndTwo) {
  for (const char* ranks : {"1", "2"}) {
    const ProgramResult run =
        Run({"--dataset=shapes", Pipeline(), "--model=unet", "--classes=3",
             "--ignore_value=255", "--lr=0.01", "--last_batch=pad",
             absl::StrCat("--nproc=", ranks),
             absl::StrCat("--epochs=", ranks[0] == '1' ? 5 : 1),
             "--eval_dataset=others", EvalPipeline(),
             "--json=" + Path(absl::StrCat(ranks, ".json")),
             "--step_losses=" + Path(ranks)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out,
                AllOf(HasSubstr("accuracy 0."), HasSubstr("mean IoU 0."),
                      HasSubstr("33 samples")));
  }
  const std::vector<double> losses = Losses("1");
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  const std::string json = ReadFile(Path("1.json"));
  // One class everywhere would have 0.3 or less.
  EXPECT_GT(Number(json, "eval_mean_iou"), 0.5) << json;
  EXPECT_GT(Number(json, "eval_accuracy"), 0.8) << json;
  const std::vector<double> two = Losses("2");
  ASSERT_EQ(two.size(), 12u);
  for (size_t i = 0; i < two.size(); ++i) {
    EXPECT_NEAR(two[i], losses[i], 0.02) << "step " << i;
  }
}

TEST_F(Pixels, LearnsAYesOrNoForEachClassOfAMask) {
  const ProgramResult run =
      Run({"--dataset=shapes", Pipeline(), "--model=unet",
           "--loss=bce_with_logits", "--classes=3", "--ignore_value=255",
           "--lr=0.01", "--epochs=8", "--eval_dataset=others", EvalPipeline(),
           "--json=" + Path("bce.json"), "--step_losses=" + Path("bce")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_LT(Losses("bce").back(), 0.5 * Losses("bce").front());
  EXPECT_GT(Number(ReadFile(Path("bce.json")), "eval_mean_iou"), 0.4);
}

// The preset's crops of 480 pixels, one step; 255 is a value like others there.
TEST_F(Pixels, TakesWhatThePresetMakes) {
  const std::vector<std::string> flags = {
      "--dataset=shapes", "--preset=segmentation_train", "--model=unet",
      "--batch_size=1", "--max_steps=1"};
  std::vector<std::string> good = flags;
  good.insert(good.end(), {"--classes=3", "--ignore_value=255"});
  const ProgramResult run = Run(good);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::vector<std::string> unsaid = flags;
  unsaid.push_back("--classes=3");
  EXPECT_THAT(Run(unsaid).err, AllOf(HasSubstr("has the label 255 in row"),
                                     HasSubstr("give it to --ignore_value")));
  EXPECT_THAT(Run(flags).err, HasSubstr("give --classes=N"));
}

TEST_F(Pixels, TrainsModulesAndLossesOfFilesOverPixels) {
  const std::string models = "torchscript:tests/testdata/trainer/models/";
  const ProgramResult run =
      Run({"--dataset=shapes", Pipeline(), "--model=" + models + "of_pixels.pt",
           "--loss=" + models + "dice.pt", "--ignore_value=255", "--epochs=3",
           "--lr=0.05", "--step_losses=" + Path("dice")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_LT(Losses("dice").back(), 0.8 * Losses("dice").front());
}

// 8 x 1 x 128 x 128, as docs/training.md has it.
TEST_F(Pixels, ProfilesBinaryMasks) {
  WriteFile(Path("made_up.textproto"),
            "sources { synthetic { samples: 80 "
            "  fields { name: 'image' dtype: DTYPE_FLOAT32 "
            "           shape: [128, 128, 1] } "
            "  fields { name: 'mask' dtype: DTYPE_BOOL "
            "           shape: [128, 128, 1] } } } "
            "batch_size: 8");
  const ProgramResult run =
      Run({"--pipeline=" + Path("made_up.textproto"), "--model=unet",
           "--loss=bce_with_logits", "--target=mask", "--max_steps=4",
           "--profile=" + Path("profile"), "--profile_steps=2-3"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("profile of steps 2 to 3"),
                             HasSubstr("aten::convolution_backward")));
  // The profiler's library asks for GPUs where there are none.
  EXPECT_THAT(run.out + run.err, Not(HasSubstr("gpuGetDeviceCount")));
  const std::string trace =
      RunProgram(
          {"/bin/sh", "-c", "cat " + Path("profile") + "/*.pt.trace.json"})
          .out;
  for (const char* what :
       {"ProfilerStep#", "aten::binary_cross_entropy_with_logits"}) {
    EXPECT_NE(trace.find(what), std::string::npos) << what;
  }
}

// Neither has a preset: the samples are taken as they are stored.
TEST_F(Pixels, GivesVectorsAndTokensToModulesAsTheyAre) {
  for (const char* input : {"vector", "tokens"}) {
    const ProgramResult run =
        Run({"--dataset=rows", absl::StrCat("--input=", input),
             absl::StrCat("--model=torchscript:tests/testdata/trainer/models/",
                          input[0] == 'v' ? "of_vectors.pt" : "of_tokens.pt"),
             "--lr=0.05", "--epochs=4", "--eval_subset=0.75:1",
             "--json=" + Path("rows.json")});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_GT(Number(ReadFile(Path("rows.json")), "eval_accuracy"), 0.9)
        << input;
  }
}

// The server's advice was two transforms, of which a pipeline file is made.
TEST_F(Pixels, NamesAPresetForPhotographsWithoutOne) {
  WriteFile(Path("photo.jpg"), "never decoded");
  const auto server = ServerProcess::Start(
      {"--operators=" + ProgramPath("tests/testing/operators/slow_photo.so"),
       "--dataset=photos=slow:1:" + Path("photo.jpg")});
  ASSERT_TRUE(server.ok()) << server.status();
  const ProgramResult run =
      RunProgram({ProgramPath("trainer/millrace-train"),
                  "--endpoint=" + (*server)->address(), "--dataset=photos",
                  "--model=resnet18"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--preset=imagenet_train for photographs"));
}

TEST_F(Pixels, SaysWhatDoesNotFit) {
  const std::pair<std::vector<std::string>, std::string> kMistakes[] = {
      {{"--dataset=shapes", Pipeline(), "--model=cnn", "--classes=3"},
       "choose --model=unet"},
      {{"--dataset=rows", "--model=unet", "--input=vector"},
       "has no values for each pixel"},
      {{"--dataset=rows", "--model=mlp"},
       "several tensors that may be the input: vector, tokens; name one with "
       "--input=NAME"},
      {{"--dataset=rows", "--model=mlp", "--ignore_value=255"},
       "--ignore_value=255 applies to targets"},
      {{"--dataset=shapes", Pipeline(), "--model=unet",
        "--loss=bce_with_logits"},
       "has the value 255"},
      {{"--dataset=rows", "--input=tokens",
        "--model=torchscript:tests/testdata/trainer/models/of_vectors.pt"},
       "given int64 zeros of shape [2, 6]"},
  };
  for (const auto& [flags, expected] : kMistakes) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 2) << flags[1];
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags[1];
  }
}

}  // namespace
}  // namespace millrace::testing
