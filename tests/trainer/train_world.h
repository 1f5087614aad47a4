// What the tests of the trainer's program share: packed data, a real server,
// and the program as a user starts it.
//
// Datasets of band_images.h: "train" has 200 samples, "test" 77; "five" has 50
// of five classes.

#ifndef MILLRACE_TESTS_TRAINER_TRAIN_WORLD_H_
#define MILLRACE_TESTS_TRAINER_TRAIN_WORLD_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
#include "tests/testing/listener.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/band_images.h"

namespace millrace::testing {

// One server for all tests of this program.
struct World {
  World() {
    // Of every program here: its tensors are small, and the cores are shared
    // with the server and with other tests.
    setenv("OMP_NUM_THREADS", "1", 1);
    WriteIdx(folder + "/train", 200, 10, 1);
    WriteIdx(folder + "/t10k", 77, 10, 2);
    std::vector<std::string> flags = {Pack(folder, "train", "train"),
                                      Pack(folder, "test", "test"),
                                      "--threads=1"};
    WriteIdx(folder + "/train", 50, 5, 3);
    flags.push_back(Pack(folder, "five", "train"));
    auto started = ServerProcess::Start(flags);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    this->flags = flags;
  }
  const std::string folder = NewTempDir();
  std::vector<std::string> flags;
  std::unique_ptr<ServerProcess> server;
};

class Train : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { world_ = new World; }
  static void TearDownTestSuite() {
    delete world_;
    world_ = nullptr;
  }

  // Flags that come later win.
  static std::vector<std::string> Command(
      const std::vector<std::string>& flags) {
    std::vector<std::string> command = {
        ProgramPath("trainer/millrace-train"),
        "--endpoint=" + world_->server->address(),
        "--dataset=train",
        "--batch_size=32",
        "--seed=1",
        "--log_every=1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  static ProgramResult Run(const std::vector<std::string>& flags) {
    return RunProgram(Command(flags));
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  // For a run that would go on for ever; sleeps for the program's own pace.
  static void WaitForOutput(Subprocess& run, const std::string& text) {
    while (run.Running() && run.Stdout().find(text) == std::string::npos) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    ASSERT_TRUE(run.Running()) << run.Stderr();
  }
  static void ExpectResumes(const std::string& checkpoint) {
    const ProgramResult rest =
        Run({"--epochs=100000", "--max_steps=1", "--resume=" + checkpoint});
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
  }
  // Ranks 0 and 1 of a job, as torchrun starts them.
  struct TwoRanks {
    TwoRanks(const std::vector<std::string>& flags_of_zero,
             const std::vector<std::string>& flags_of_one)
        : one(Command(flags_of_one), environments[1]),
          zero(Command(flags_of_zero), environments[0]) {}
    explicit TwoRanks(const std::vector<std::string>& flags)
        : TwoRanks(flags, flags) {}

    const std::vector<std::vector<std::string>> environments =
        TorchrunEnvironments();
    Subprocess one;
    Subprocess zero;
  };

  // What torchrun tells two ranks that meet at a port that was free just now.
  static std::vector<std::vector<std::string>> TorchrunEnvironments() {
    const Listener probe;
    EXPECT_TRUE(probe.good());
    std::vector<std::vector<std::string>> environments;
    for (int rank : {0, 1}) {
      environments.push_back({absl::StrCat("RANK=", rank), "WORLD_SIZE=2",
                              absl::StrCat("LOCAL_RANK=", rank),
                              "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                              absl::StrCat("MASTER_PORT=", probe.port()),
                              "OMP_NUM_THREADS=1"});
    }
    return environments;
  }

  // The third word of each line of a --step_losses file.
  std::vector<double> Losses(const std::string& name) const {
    std::istringstream lines(ReadFile(Path(name)));
    std::vector<double> losses;
    double epoch, step, loss;
    while (lines >> epoch >> step >> loss) losses.push_back(loss);
    return losses;
  }

  static void ExpectNear(const std::vector<double>& a,
                         const std::vector<double>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], tolerance) << "step " << i;
    }
  }

  static inline World* world_ = nullptr;
  const std::string folder_ = NewTempDir();
};

// Of a summary; NaN when it has no such number.
inline double Number(const std::string& json, const std::string& key) {
  std::smatch match;
  const std::regex pattern("\"" + key + "\": ([-0-9.e+]+)");
  if (!std::regex_search(json, match, pattern)) return std::nan("");
  return std::stod(match[1]);
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TRAINER_TRAIN_WORLD_H_
