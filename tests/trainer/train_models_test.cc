// The trainer's models, losses and weights as a user asks for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/train_world.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ModelFile(const std::string& name) {
  return "torchscript:tests/testdata/trainer/models/" + name;
}

TEST_F(Train, LearnsWithAModelOfAFileAlikeWithOneRankAndTwo) {
  for (const char* ranks : {"1", "2"}) {
    const ProgramResult run =
        Run({"--model=" + ModelFile("half_fixed.pt"), "--lr=0.01",
             absl::StrCat("--nproc=", ranks), "--epochs=2",
             "--step_losses=" + Path(ranks)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  EXPECT_LT(Losses("1").back(), Losses("1").front());
  ExpectNear(Losses("1"), Losses("2"), 1e-4);
}

TEST_F(Train, ResumesAModelOfAFileWithTheSameContentOnly) {
  const std::string checkpoint = Path("script.ckpt");
  const std::string model = "--model=" + ModelFile("small_cnn.pt");
  ASSERT_EQ(
      Run({model, "--epochs=2", "--step_losses=" + Path("whole")}).exit_code,
      0);
  ASSERT_EQ(
      Run({model, "--epochs=2", "--max_steps=4", "--checkpoint=" + checkpoint})
          .exit_code,
      0);
  // The same content under another name.
  WriteFile(Path("copy.pt"),
            ReadFile("tests/testdata/trainer/models/small_cnn.pt"));
  const ProgramResult rest =
      Run({"--model=torchscript:" + Path("copy.pt"), "--epochs=2",
           "--resume=" + checkpoint, "--step_losses=" + Path("rest")});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  const std::vector<double> whole = Losses("whole");
  EXPECT_EQ(std::vector<double>(whole.begin() + 4, whole.end()),
            Losses("rest"));
  const ProgramResult other = Run({"--model=" + ModelFile("traced_cnn.pt"),
                                   "--epochs=2", "--resume=" + checkpoint});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("hash of its content"));
}

TEST_F(Train, ComputesTheSameAsAGraph) {
  for (const char* graph : {"false", "true"}) {
    const ProgramResult run =
        Run({"--model=cnn", absl::StrCat("--graph=", graph), "--epochs=2",
             "--last_batch=pad", "--eval_dataset=test",
             "--json=" + Path(absl::StrCat(graph, ".json")),
             "--step_losses=" + Path(graph)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  ExpectNear(Losses("true"), Losses("false"), 1e-4);
  const std::string graph = ReadFile(Path("true.json"));
  EXPECT_NEAR(Number(graph, "eval_accuracy"),
              Number(ReadFile(Path("false.json")), "eval_accuracy"), 0.03);
}

TEST_F(Train, LearnsByOtherLosses) {
  // Yes or no for each class.
  ProgramResult run =
      Run({"--loss=bce_with_logits", "--epochs=6", "--last_batch=pad",
           "--eval_dataset=test", "--json=" + Path("bce.json")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_GT(Number(ReadFile(Path("bce.json")), "eval_accuracy"), 0.8);

  // The image from itself: 784 numbers, of which no accuracy is known.
  run = Run({"--loss=mse", "--input=image", "--target=image", "--epochs=3",
             "--eval_dataset=test", "--json=" + Path("mse.json"),
             "--step_losses=" + Path("mse")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_LT(Losses("mse").back(), Losses("mse").front());
  EXPECT_THAT(run.out, Not(HasSubstr("accuracy")));
  EXPECT_THAT(ReadFile(Path("mse.json")), HasSubstr("\"eval_accuracy\": null"));

  for (const char* file : {"huber_mean.pt", "huber_of_rows.pt"}) {
    run = Run({"--loss=" + ModelFile(file), "--input=image", "--target=image",
               "--last_batch=pad", "--step_losses=" + Path(file)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  ExpectNear(Losses("huber_mean.pt"), Losses("huber_of_rows.pt"), 1e-5);
}

TEST_F(Train, BeginsWithWeightsThatItSaved) {
  for (const std::string name : {"w.pt", "w.safetensors"}) {
    const ProgramResult first =
        Run({"--epochs=2", "--save_weights=" + Path(name),
             "--step_losses=" + Path("first")});
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const ProgramResult second =
        Run({"--max_steps=1", "--init_weights=" + Path(name), "--seed=2",
             "--step_losses=" + Path("second")});
    ASSERT_EQ(second.exit_code, 0) << second.err;
    EXPECT_LT(Losses("second").at(0), 0.7 * Losses("first").at(0));
  }
  const ProgramResult other =
      Run({"--init_weights=" + Path("w.pt"), "--dataset=five"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("fc3.weight is [10, 64] in the file and [5, 64]"),
                    HasSubstr("--init_weights_without")));
  EXPECT_EQ(Run({"--init_weights=" + Path("w.pt"), "--dataset=five",
                 "--init_weights_without=fc3", "--max_steps=1"})
                .exit_code,
            0);
}

// The advice works: the weights of a run that is over are had of its
// checkpoint.
TEST_F(Train, SaysHowToGetWeightsOutOfACheckpoint) {
  const std::string checkpoint = Path("run.ckpt");
  ASSERT_EQ(Run({"--checkpoint=" + checkpoint}).exit_code, 0);
  const ProgramResult wrong = Run({"--init_weights=" + checkpoint});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err,
              AllOf(HasSubstr("is a checkpoint of millrace-train, not a file "
                              "of weights"),
                    HasSubstr("--resume"), HasSubstr("--save_weights=")));
  const std::string weights = Path("of_run.safetensors");
  const ProgramResult written =
      Run({"--checkpoint=" + checkpoint, "--resume=auto",
           "--save_weights=" + weights});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(Run({"--init_weights=" + weights, "--max_steps=1"}).exit_code, 0);
}

TEST_F(Train, SaysWhatDoesNotFitBeforeItTrains) {
  const std::pair<std::vector<std::string>, std::string> kMistakes[] = {
      {{"--model=vgg"}, "--model is \"vgg\""},
      {{"--model=torchscript:/no/such.pt"}, "/no/such.pt"},
      {{"--model=" + ModelFile("double.pt")}, "not float32"},
      {{"--model=" + ModelFile("of_all_rows.pt")}, "returned [10]"},
      {{"--model=" + ModelFile("small_cnn.pt"), "--dataset=five"},
       "must return [2, 5]"},
      {{"--loss=hinge"}, "--loss is \"hinge\""},
      {{"--loss=torchscript:/no/such.pt"}, "/no/such.pt"},
      {{"--loss=mse"}, "is a class index"},
      {{"--loss=cross_entropy", "--target=image", "--input=image"},
       "--loss=bce_with_logits"},
      {{"--loss=" + ModelFile("huber_mean.pt")}, "the loss, given"},
      {{"--loss=" + ModelFile("weighted_loss.pt")}, "weights of its own"},
      {{"--save_weights=" + Path("w.bin")}, "--save_weights"},
      {{"--init_weights=/no/such.pt"}, "/no/such.pt"},
      {{"--init_weights_without=fc"},
       "--init_weights_without has no effect without --init_weights"},
      {{"--init_weights=a.pt", "--resume=b"}, "cannot be used together"},
  };
  for (const auto& [flags, expected] : kMistakes) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 2) << flags[0];
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags[0];
  }
}

}  // namespace
}  // namespace millrace::testing
