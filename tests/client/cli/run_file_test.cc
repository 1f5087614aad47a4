// What is made of files that say what a job has loaded.

#include "client/cli/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/stop_signals.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

// A summary of millrace-train with that plan hash.
absl::StatusOr<RunFile> ReadSummary(const std::string& plan_hash) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  std::ofstream(path) << absl::StrCat(
      R"({"pipeline": "sources { dataset: \"d\" }", "plan_hash": ")", plan_hash,
      R"(", "world_size": 3})");
  return ReadRunFile(path);
}

TEST(RunFileTest, ReadsTheSummaryOfATraining) {
  const auto run = ReadSummary("00fF10");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan_hash, std::string("\0\xff\x10", 3));
  EXPECT_EQ(run->world_size, 3);
  EXPECT_EQ(run->spec.sources(0).dataset(), "d");
}

TEST(RunFileTest, RefusesAPlanHashThatIsNone) {
  for (const char* hash : {"none of it", "00f", "0x10"}) {
    const auto run = ReadSummary(hash);
    EXPECT_TRUE(absl::IsInvalidArgument(run.status())) << run.status();
    EXPECT_THAT(std::string(run.status().message()), HasSubstr(hash));
  }
}

std::string NewPipe() {
  const std::string path = ::testing::TempDir() + "/run_file_pipe";
  unlink(path.c_str());
  EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  return path;
}

TEST(RunFileTest, ReadsASummaryFromAPipe) {
  const std::string path = NewPipe();
  std::thread writer(
      [&path] {
        std::ofstream(path)
            << R"({"pipeline": "batch_size: 7", "plan_hash": "00"})";
      });
  const auto run = ReadRunFile(path);
  writer.join();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->spec.batch_size(), 7u);
}

// `replay --run=PIPE` waited for a writer, and a program that holds signals
// back could not be stopped.
TEST(RunFileTest, ASignalEndsTheWaitForAPipe) {
  const std::string path = NewPipe();
  StopSignals signals;
  kill(getpid(), SIGTERM);
  const auto run = ReadRunFile(path);
  EXPECT_TRUE(absl::IsCancelled(run.status())) << run.status();
}

TEST(RunFileTest, SaysWhichStepsALogHolds) {
  RunFile run;
  EXPECT_FALSE(run.is_log());
  EXPECT_EQ(run.WhatTheLogHolds(), "no step");
  audit::AuditSegment segment;
  segment.run.set_rank(3);
  segment.run.set_world_size(4);
  segment.run.set_steps_per_epoch(10);
  segment.run.set_step(8);
  segment.records = 5;
  run.log.segments.push_back(segment);
  EXPECT_TRUE(run.is_log());
  EXPECT_EQ(run.WhatTheLogHolds(),
            "rank 3 of 4: epoch 0 step 8 to epoch 1 step 2");
  // A number that no log has is left out.
  segment.run.set_epoch(~uint64_t{0});
  run.log.segments.push_back(segment);
  EXPECT_EQ(run.WhatTheLogHolds(),
            "rank 3 of 4: epoch 0 step 8 to epoch 1 step 2");
}

TEST(RunFileTest, APositionBeyondAllNumbersHasNoRecord) {
  RunFile run;
  audit::AuditSegment segment;
  segment.file = "/nonexistent";
  segment.records = 3;
  segment.run.set_world_size(1);
  segment.run.set_steps_per_epoch(4);
  run.log.segments.push_back(segment);
  // 4 times this is 0, modulo 2^64.
  const auto record = run.RecordOf({uint64_t{1} << 62, 1}, 0, 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_FALSE(record->has_value());
}

}  // namespace
}  // namespace millrace::cli
