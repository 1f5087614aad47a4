// The flags of the optimiser step as a user gives them: real server, real
// trainer. That each rule is Python's is shown in updater_test.cc; here is what
// only a whole run shows: groups of batches, going on after a stop, reports.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
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

using ::testing::HasSubstr;

constexpr int kSamples = 200;

class Training : public ::testing::Test {
 protected:
  using Flags = std::vector<std::string>;

  static void SetUpTestSuite() {
    // Of every program here: sums in one order, and cores for the others.
    setenv("OMP_NUM_THREADS", "1", 1);
    const std::string folder = NewTempDir();
    WriteIdx(folder + "/train", kSamples, 10, 1);
    WriteIdx(folder + "/t10k", 77, 10, 2);
    Flags flags = {Pack(folder, "train", "train"), Pack(folder, "test", "test"),
                   "--threads=1"};
    WriteIdx(folder + "/train", 48, 10, 3);
    flags.push_back(Pack(folder, "few", "train"));
    auto started = ServerProcess::Start(flags);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = started->release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

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
    return RunProgram(Command(flags));
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
              "--step_losses=" + Path("two"), "--json=" + Path("two.json")}}) {
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
  // The ranks exchanged their gradients once a group, not once a batch.
  const double gradients = 4 * (784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10);
  const double sent = Number(ReadFile(Path("two.json")), "allreduce_bytes");
  EXPECT_GE(sent, 12 * gradients);
  EXPECT_LT(sent, 13 * gradients);
}

// Stopped in the middle of an epoch and gone on with, the last checkpoint is
// that of a run that was not stopped: every byte of weights, optimiser, scaler
// and averages.
TEST_F(Training, GoesOnBitForBit) {
  const Flags kRuns[] = {
      {"--optimizer=adamw", "--weight_decay=0.1", "--schedule=cosine",
       "--warmup_epochs=0.5", "--ema=0.9", "--accumulate=3",
       "--clip_grad_norm=0.1", "--label_smoothing=0.1", "--max_steps=2"},
      {"--precision=bfloat16", "--model=cnn", "--max_steps=8"},
      // Half of its outputs are dropped in each step.
      {"--model=torchscript:tests/testdata/trainer/models/dropped.pt",
       "--max_steps=5"},
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
    ProgramResult run =
        Run(flags, {"--checkpoint=" + whole, "--json=" + whole + ".json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    WriteFile(whole + ".out", run.out);
    run = Run(flags, {"--checkpoint=" + checkpoint, stop});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::string part = ReadFile(checkpoint);
    WriteFile(Path(absl::StrCat("stopped", i)), part);
    run = Run(flags, {"--checkpoint=" + checkpoint, "--resume=" + checkpoint});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    ASSERT_FALSE(ReadFile(whole).empty());
    EXPECT_NE(part, ReadFile(checkpoint));
    EXPECT_TRUE(ReadFile(whole) == ReadFile(checkpoint)) << i;
  }
  // What does not fit the file is refused by its name.
  const Flags rest = {"--optimizer=adamw", "--batch_size=32",
                      "--epochs=2",        "--last_batch=pad",
                      "--ema=0.9",         "--resume=" + Path("stopped0")};
  EXPECT_THAT(Run(rest, {"--ema=0"}).err, HasSubstr("give --ema"));
  EXPECT_THAT(Run(rest, {"--accumulate=4"}).err,
              HasSubstr("resume with --accumulate=3"));

  // The last run's first scale was too high.
  const std::string json = ReadFile(Path("whole3.json"));
  const double skipped = Number(json, "skipped_steps");
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(Number(json, "loss_scale"), 16777216 / std::pow(2, skipped));
  EXPECT_THAT(ReadFile(Path("whole3.out")),
              HasSubstr(absl::StrCat(skipped, skipped == 1 ? " step" : " steps",
                                     " skipped so far")));
}

// A group that is cut off is trained on again: running statistics too.
TEST_F(Training, StoppedInAGroupGoesOnBitForBit) {
  const Flags flags = {"--dataset=few",  "--model=resnet18", "--batch_size=8",
                       "--accumulate=4", "--epochs=1",       "--log_every=1"};
  ProgramResult run = Run(flags, {"--checkpoint=" + Path("whole")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  Flags stopped = Command(flags);
  stopped.push_back("--checkpoint=" + Path("part"));
  Subprocess first(stopped);
  while (first.Running() &&
         first.Stdout().find("step 2/6") == std::string::npos) {
    absl::SleepFor(absl::Milliseconds(5));  // for the program's own pace
  }
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 1);
  EXPECT_THAT(first.Stdout(), ::testing::ContainsRegex(
                                  "checkpoint before epoch 1, step (1|5):"));
  run =
      Run(flags, {"--checkpoint=" + Path("part"), "--resume=" + Path("part")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_FALSE(ReadFile(Path("whole")).empty());
  EXPECT_TRUE(ReadFile(Path("whole")) == ReadFile(Path("part")));
}

TEST_F(Training, EvaluatesTheAverageAndTrainsTheWeightsInEitherLayout) {
  const Flags common = {"--model=cnn", "--epochs=2", "--batch_size=32",
                        "--eval_dataset=test"};
  ProgramResult run = Run(
      common, {"--step_losses=" + Path("own"), "--json=" + Path("own.json")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  run = Run(common,
            {"--ema=0.99", "--channels_last=false",
             "--step_losses=" + Path("ema"), "--json=" + Path("ema.json")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<double> own = Losses("own", 32, 1);
  const std::vector<double> ema = Losses("ema", 32, 1);
  ASSERT_EQ(own.size(), 12u);
  ASSERT_EQ(ema.size(), 12u);
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_NEAR(own[i], ema[i], 1e-4) << i;
  }
  // An average over so few steps lags behind.
  EXPECT_GT(Number(ReadFile(Path("ema.json")), "eval_loss"),
            1.05 * Number(ReadFile(Path("own.json")), "eval_loss"));
}

}  // namespace
}  // namespace millrace::testing
