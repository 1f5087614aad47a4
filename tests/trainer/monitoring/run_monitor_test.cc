#include "trainer/monitoring/run_monitor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tests/testing/subprocess.h"
#include "trainer/monitoring/step_profiler.h"
#include "trainer/progress.h"

namespace millrace::monitoring {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(RunMonitor, LeavesOutWhatIsNotTheRuns) {
  trainer::Progress progress(
      {.enabled = false, .terminal = false, .log_every = 0});
  auto monitor = RunMonitor::Make({.device = c10::kCPU}, progress,
                                  [] { return RunMonitor::Counters(); });
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  const Clock::time_point start = Clock::now();
  (*monitor)->BeginEpoch({.epoch = 0, .epochs = 1, .first = 0, .steps = 2});
  double left_out = 0;
  for (int step = 0; step < 2; ++step) {
    (*monitor)->BeginStep();
    (*monitor)->EndStep(/*samples=*/8);
    (*monitor)->LeaveOut([&left_out] {
      const Clock::time_point began = Clock::now();
      while (SecondsSince(began) < 0.02) {
      }
      left_out += SecondsSince(began);
    });
  }
  const diagnosis::RunTimes times = (*monitor)->EndEpoch().times;
  EXPECT_EQ(times.steps, 2u);
  EXPECT_EQ(times.samples, 16u);
  EXPECT_GE(left_out, 0.04);
  EXPECT_GE(times.seconds, 0);
  EXPECT_LE(times.seconds, SecondsSince(start) - left_out);
  EXPECT_GE(times.cpu_seconds, 0);
}

// The wait that ended a run was missing in its times.
TEST(RunMonitor, CountsTheLastWaitOfAnUnfinishedEpoch) {
  trainer::Progress progress(
      {.enabled = false, .terminal = false, .log_every = 0});
  RunMonitor::Counters counters;
  auto monitor = RunMonitor::Make({.device = c10::kCPU}, progress,
                                  [&counters] { return counters; });
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  (*monitor)->BeginEpoch({.epoch = 0, .epochs = 1, .first = 0, .steps = 9});
  (*monitor)->BeginStep();
  (*monitor)->EndStep(/*samples=*/8);
  (*monitor)->BeginStep();
  (*monitor)->timer().Enter(StepPart::kData);
  counters.loader.wait_seconds = 12;
  const diagnosis::RunTimes times = (*monitor)->EndUnfinishedEpoch().times;
  EXPECT_EQ(times.steps, 1u);
  EXPECT_EQ(times.samples, 8u);
  EXPECT_DOUBLE_EQ(times.data_seconds, 12);
}

// The wait for the first batches is told from the waits that go on.
TEST(RunMonitor, MeasuresTheStartOfTheRunOnce) {
  trainer::Progress progress(
      {.enabled = false, .terminal = false, .log_every = 0});
  RunMonitor::Counters counters;
  auto monitor = RunMonitor::Make({.device = c10::kCPU}, progress,
                                  [&counters] { return counters; });
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  const auto step = [&](double waits) {
    (*monitor)->BeginStep();
    counters.loader.wait_seconds += waits;
    (*monitor)->EndStep(/*samples=*/8);
  };
  counters.loader.wait_seconds = 5;  // of an evaluation before
  const Clock::time_point start = Clock::now();
  (*monitor)->BeginEpoch({.epoch = 0, .epochs = 2, .first = 0, .steps = 3});
  step(0.5);
  while (SecondsSince(start) < 1.01) {
  }
  step(0.25);
  step(0.125);
  const diagnosis::RunTimes first = (*monitor)->EndEpoch().times;
  EXPECT_GE(first.start_seconds, 1);
  EXPECT_LE(first.start_seconds, first.seconds);
  EXPECT_DOUBLE_EQ(first.start_data_seconds, 0.75);
  EXPECT_DOUBLE_EQ(first.data_seconds, 0.875);
  (*monitor)->BeginEpoch({.epoch = 1, .epochs = 2, .first = 0, .steps = 1});
  step(1);
  const diagnosis::RunTimes second = (*monitor)->EndEpoch().times;
  EXPECT_EQ(second.start_seconds, 0);
  EXPECT_EQ(second.start_data_seconds, 0);
}

TEST(RunMonitor, AShortFirstEpochIsTheStart) {
  trainer::Progress progress(
      {.enabled = false, .terminal = false, .log_every = 0});
  RunMonitor::Counters counters;
  auto monitor = RunMonitor::Make({.device = c10::kCPU}, progress,
                                  [&counters] { return counters; });
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  for (const bool is_first : {true, false}) {
    (*monitor)->BeginEpoch({.epoch = 0, .epochs = 2, .first = 0, .steps = 1});
    (*monitor)->BeginStep();
    counters.loader.wait_seconds += 0.5;
    (*monitor)->EndStep(/*samples=*/8);
    const diagnosis::RunTimes times = (*monitor)->EndEpoch().times;
    EXPECT_DOUBLE_EQ(times.start_seconds, is_first ? times.seconds : 0);
    EXPECT_DOUBLE_EQ(times.start_data_seconds, is_first ? 0.5 : 0);
  }
}

// A run that failed before its first step left a file without a point.
TEST(RunMonitor, MakesTensorBoardsFileWithTheFirstPoint) {
  trainer::Progress progress(
      {.enabled = false, .terminal = false, .log_every = 0});
  const std::string top = testing::NewTempDir();
  const std::string folder = top + "/logs/run1";
  auto monitor =
      RunMonitor::Make({.device = c10::kCPU, .tensorboard = folder}, progress,
                       [] { return RunMonitor::Counters(); });
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  EXPECT_NE(access((top + "/logs").c_str(), F_OK), 0);
  (*monitor)->Report(1, {{"Loss/train_epoch", 0.5}});
  EXPECT_EQ(access(folder.c_str(), F_OK), 0);
  (*monitor)->End();

  testing::WriteFile(top + "/file", "");
  EXPECT_TRUE(absl::IsInvalidArgument(
      RunMonitor::Make({.device = c10::kCPU, .tensorboard = top + "/file/logs"},
                       progress, [] { return RunMonitor::Counters(); })
          .status()));
}

// A run that was stopped within step 5 had a "profile of steps 5 to 4".
TEST(StepProfiler, NamesTheStepsOfItsTrace) {
  EXPECT_EQ(ProfiledText(5, 9), "steps 5 to 9");
  EXPECT_EQ(ProfiledText(5, 5), "step 5");
  EXPECT_EQ(ProfiledText(5, 4), "step 5, which did not end");
}

}  // namespace
}  // namespace millrace::monitoring
