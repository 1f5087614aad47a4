// The flags of the optimiser step as a user gives them: real server, real
// trainer. That each rule is Python's is shown in updater_test.cc; here is what
// only a whole run shows: groups of batches, going on after a stop, reports.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/band_images.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSamples = 200;

class Training : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Of every program here: sums in one order, and cores for the others.
    setenv("OMP_NUM_THREADS", "1", 1);
    const std::string folder = NewTempDir();
    WriteIdx(folder + "/train", kSamples, 10, 1);
    WriteIdx(folder + "/t10k", 77, 10, 2);
    auto started =
        ServerProcess::Start({Pack(folder, "train", "train"),
                              Pack(folder, "test", "test"), "--threads=1"});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = started->release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  using Flags = std::vector<std::string>;
  // Flags that come later win.
  static Flags Command(const Flags& flags) {
    Flags command = {ProgramPath("trainer/millrace-train"),
                     "--endpoint=" + server_->address(), "--dataset=train",
                     "--seed=1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  static ProgramResult Run(Flags flags, const Flags& more = {}) {
    flags.insert(flags.end(), more.begin(), more.end());
    ProgramResult result = RunProgram(Command(flags));
    return result;
  }
  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }

  // Of a --step_losses file with batches of `batch_size`: the mean of each
  // `batches` of an epoch, each row counted once.
  std::vector<double> Losses(const std::string& name, int batch_size,
                             int batches) const {
    std::istringstream lines(ReadFile(Path(name)));
    std::vector<double> losses;
    double sum = 0;
    int rows = 0;
    const auto end_group = [&] {
      if (rows > 0) losses.push_back(sum / rows);
      sum = rows = 0;
    };
    int epoch, step;
    double loss;
    while (lines >> epoch >> step >> loss) {
      if (step % batches == 0) end_group();
      const int valid = std::min(batch_size, kSamples - step * batch_size);
      sum += loss * valid;
      rows += valid;
    }
    end_group();
    return losses;
  }
  static double Number(const std::string& json, const std::string& key) {
    std::smatch match;
    const std::regex pattern("\"" + key + "\": \\[?([-0-9.e+]+)");
    if (!std::regex_search(json, match, pattern)) return std::nan("");
    return std::stod(match[1]);
  }

  static ServerProcess* server_;
  const std::string folder_ = NewTempDir();
};

ServerProcess* Training::server_ = nullptr;

// 200 samples in batches of 24: groups of 3, 3 and 3, of which the last one has
// 24 + 24 + 8 valid rows. As batches of 72 they are 72, 72 and 56.
TEST_F(Training, OfSeveralBatchesAtOnceIsThatOfALargeOne) {
  const Flags common = {"--last_batch=pad",  "--epochs=4",
                        "--optimizer=sgd",   "--lr=0.1",
                        "--schedule=cosine", "--warmup_epochs=1"};
  for (const Flags& flags :
       {Flags{"--batch_size=72", "--step_losses=" + Path("large")},
        Flags{"--batch_size=24", "--accumulate=3",
              "--step_losses=" + Path("small"), "--json=" + Path("small.json")},
        Flags{"--batch_size=24", "--accumulate=3", "--nproc=2",
              "--step_losses=" + Path("two")}}) {
    const ProgramResult run = Run(common, flags);
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  const std::vector<double> large = Losses("large", 72, 1);
  ASSERT_EQ(large.size(), 12u);
  EXPECT_LT(large.back(), 0.5 * large.front());
  for (const char* name : {"small", "two"}) {
    const std::vector<double> small = Losses(name, 24, 3);
    ASSERT_EQ(small.size(), large.size()) << name;
    for (size_t i = 0; i < large.size(); ++i) {
      EXPECT_NEAR(small[i], large[i], 2e-5) << name << " group " << i;
    }
  }
  EXPECT_EQ(Number(ReadFile(Path("small.json")), "steps"), 12);
}

// Stopped in the middle of an epoch and gone on with, the last checkpoint is
// that of a run that was not stopped: every byte of weights, optimiser, scaler
// and averages.
TEST_F(Training, GoesOnBitForBit) {
  const Flags kRuns[] = {
      {"--optimizer=adamw", "--weight_decay=0.1", "--schedule=cosine",
       "--warmup_epochs=0.5", "--ema=0.9", "--accumulate=3",
       "--clip_grad_norm=0.1", "--label_smoothing=0.1", "--max_steps=3"},
      {"--precision=bfloat16", "--model=cnn", "--max_steps=8"},
      {"--optimizer=sgd", "--nesterov", "--weight_decay=0.01", "--lr=0.05",
       "--schedule=step", "--step_epochs=1", "--precision=float16",
       "--loss_scale=16777216", "--max_steps=5"}};
  for (size_t i = 0; i < std::size(kRuns); ++i) {
    Flags flags = kRuns[i];
    const std::string stop = flags.back();
    flags.pop_back();
    flags.insert(flags.end(),
                 {"--batch_size=32", "--epochs=2", "--last_batch=pad"});
    const std::string checkpoint = Path(absl::StrCat("part", i));
    const std::string whole = Path(absl::StrCat("whole", i));
    ProgramResult run = Run(flags, {"--checkpoint=" + whole});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    run = Run(flags, {"--checkpoint=" + checkpoint, stop});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::string part = ReadFile(checkpoint);
    run = Run(flags, {"--checkpoint=" + checkpoint, "--resume=" + checkpoint});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    ASSERT_FALSE(ReadFile(whole).empty());
    EXPECT_NE(part, ReadFile(checkpoint));
    EXPECT_TRUE(ReadFile(whole) == ReadFile(checkpoint)) << i;
  }
  // What does not fit the file is refused by its name.
  const std::string averaged = Path("part0");
  ASSERT_EQ(Run({"--optimizer=adamw", "--accumulate=3", "--ema=0.9",
                 "--batch_size=32", "--epochs=2", "--last_batch=pad",
                 "--max_steps=2", "--checkpoint=" + averaged})
                .exit_code,
            0);
  const Flags rest = {"--optimizer=adamw", "--batch_size=32", "--epochs=2",
                      "--last_batch=pad", "--resume=" + averaged};
  EXPECT_THAT(Run(rest).err, HasSubstr("give --ema"));
  EXPECT_THAT(Run(rest, {"--ema=0.9", "--accumulate=4"}).err,
              HasSubstr("go on with --accumulate=3"));
}

// A group that is cut off is trained on again: running statistics too.
TEST_F(Training, StoppedInAGroupGoesOnBitForBit) {
  const Flags flags = {"--model=resnet18", "--batch_size=8", "--accumulate=20",
                       "--epochs=1", "--log_every=1"};
  ProgramResult run = Run(flags, {"--checkpoint=" + Path("whole")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  Flags stopped = Command(flags);
  stopped.push_back("--checkpoint=" + Path("part"));
  Subprocess first(stopped);
  while (first.Running() &&
         first.Stdout().find("step 2/25") == std::string::npos) {
    absl::SleepFor(absl::Milliseconds(5));  // for the program's own pace
  }
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 1);
  EXPECT_THAT(first.Stdout(), ::testing::ContainsRegex(
                                  "checkpoint before epoch 1, step (1|21):"));
  run =
      Run(flags, {"--checkpoint=" + Path("part"), "--resume=" + Path("part")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_FALSE(ReadFile(Path("whole")).empty());
  EXPECT_TRUE(ReadFile(Path("whole")) == ReadFile(Path("part")));
}

TEST_F(Training, ReportsTheLossScaleAndTheStepsThatItCost) {
  const ProgramResult run =
      Run({"--precision=float16", "--loss_scale=16777216", "--epochs=6",
           "--batch_size=32", "--eval_dataset=test",
           "--json=" + Path("half.json")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string json = ReadFile(Path("half.json"));
  const double skipped = Number(json, "skipped_steps");
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(Number(json, "loss_scale"), 16777216 / std::pow(2, skipped));
  EXPECT_GT(Number(json, "eval_accuracy"), 0.8) << "it learns all the same";
  EXPECT_THAT(run.out, HasSubstr("skipped"));
}

TEST_F(Training, EvaluatesTheAverageAndTrainsTheWeights) {
  const Flags common = {"--epochs=3", "--batch_size=32", "--eval_dataset=test"};
  ASSERT_EQ(Run(common,
                {"--step_losses=" + Path("own"), "--json=" + Path("own.json")})
                .exit_code,
            0);
  ASSERT_EQ(Run(common, {"--ema=0.99", "--step_losses=" + Path("ema"),
                         "--json=" + Path("ema.json")})
                .exit_code,
            0);
  EXPECT_FALSE(ReadFile(Path("own")).empty());
  EXPECT_EQ(ReadFile(Path("own")), ReadFile(Path("ema")));
  // An average over so few steps lags behind.
  EXPECT_GT(Number(ReadFile(Path("ema.json")), "eval_loss"),
            Number(ReadFile(Path("own.json")), "eval_loss"));
}

TEST_F(Training, IsTheSameInEitherLayout) {
  const Flags common = {"--model=cnn", "--batch_size=32", "--epochs=1"};
  for (const char* layout : {"true", "false"}) {
    const ProgramResult run =
        Run(common, {absl::StrCat("--channels_last=", layout),
                     "--step_losses=" + Path(layout)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  const std::vector<double> last = Losses("true", 32, 1);
  const std::vector<double> planes = Losses("false", 32, 1);
  ASSERT_EQ(last.size(), 6u);
  ASSERT_EQ(planes.size(), 6u);
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_NEAR(last[i], planes[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace millrace::testing
