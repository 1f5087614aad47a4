#include "client/diagnosis/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace millrace::diagnosis {
namespace {

using ::testing::HasSubstr;

TEST(RunTimes, AddUpOverEpochs) {
  RunTimes one;
  one.seconds = 2;
  one.steps = 10;
  one.data_seconds = 0.5;
  one.forward_seconds = 0.5;
  one.backward_seconds = 0.75;
  one.optimizer_seconds = 0.25;
  one.allreduce_seconds = 0.3;
  one.ranks_seconds = 0.1;
  one.cpu_seconds = 3;
  one.cpus = 2;
  one.other_cpu_seconds = 1.5;
  one.machine_cpus = 4;
  one.pinned_bytes = 100;
  one.device_busy = 0.9;
  one.device_busy_source = "nvml";
  one.wait_cause = WaitCause::kDecoding;
  // Of the waits for ranks, 0.2 s lie in backward.
  EXPECT_DOUBLE_EQ(one.compute_seconds(), 1.3);
  RunTimes two = one;
  two.seconds = 6;
  two.data_seconds = 0.1;
  two.device_busy = 0.5;
  two.wait_cause = WaitCause::kConsumer;
  RunTimes run;
  run.Add(one);
  run.Add(two);
  EXPECT_DOUBLE_EQ(run.seconds, 8);
  EXPECT_EQ(run.steps, 20u);
  EXPECT_DOUBLE_EQ(run.device_busy, 0.6);
  EXPECT_EQ(run.device_busy_source, "nvml");
  EXPECT_EQ(run.wait_cause, WaitCause::kDecoding)
      << "of the epoch that waited longest";
  EXPECT_EQ(run.pinned_bytes, 100u);
  const std::string json = ToJson(run);
  EXPECT_THAT(json, HasSubstr("\"data_share\": 0.075"));
  EXPECT_THAT(json, HasSubstr("\"cpu_percent\": 75"));
  EXPECT_THAT(json, HasSubstr("\"other_cpu_seconds\": 3, "));
  EXPECT_THAT(json, HasSubstr("\"machine_cpus\": 4"));
  EXPECT_THAT(json, HasSubstr("\"wait_cause\": \"decoding\""));
  EXPECT_THAT(json, HasSubstr("\"device_busy_source\": \"nvml\""));
  EXPECT_THAT(PartsText(run), HasSubstr("GPU busy 60 %"));
  // A wait for the first batches says nothing about later ones.
  RunTimes first;
  first.seconds = 5;
  first.data_seconds = first.start_data_seconds = 2;
  first.start_seconds = 2.5;
  first.wait_cause = WaitCause::kUnclear;
  RunTimes both;
  both.Add(first);
  both.Add(one);
  EXPECT_EQ(both.wait_cause, WaitCause::kDecoding);
  EXPECT_DOUBLE_EQ(both.start_seconds, 2.5);
  EXPECT_DOUBLE_EQ(both.start_data_seconds, 2);
  EXPECT_THAT(ToJson(both), HasSubstr("\"start_data_seconds\": 2"));
  two.device_busy_source = "step_times";
  run.Add(two);
  EXPECT_EQ(run.device_busy_source, "step_times")
      << "a mean of two kinds is the weaker one";
  EXPECT_THAT(ToJson(RunTimes()), HasSubstr("\"data_share\": 0,"));
}

TEST(RunSummary, IsJsonWithTheKeysThatOthersRead) {
  RunSummary summary;
  summary.dataset = "a\"b\\c\n";
  summary.epoch_seconds = {1.5, 2};
  summary.loss = {0.25, std::nan("")};
  summary.stall_share = 0.125;
  summary.samples_per_epoch = 100;
  const std::string json = ToJson(summary);
  EXPECT_THAT(json, HasSubstr("\"dataset\": \"a\\\"b\\\\c\\u000a\""));
  EXPECT_THAT(json, HasSubstr("\"ended\": \"finished\""));
  EXPECT_THAT(json, HasSubstr("\"error\": null"));
  EXPECT_THAT(json, HasSubstr("\"final_wait_seconds\": 0"));
  EXPECT_THAT(json, HasSubstr("\"epoch_seconds\": [1.5, 2]"));
  EXPECT_THAT(json, HasSubstr("\"loss\": [0.25, null]"));
  EXPECT_THAT(json, HasSubstr("\"stall_share\": 0.125"));
  EXPECT_THAT(json, HasSubstr("\"samples_per_epoch\": 100"));
  EXPECT_THAT(json, HasSubstr("\"eval_accuracy\": null"));
  EXPECT_THAT(json, HasSubstr("\"times\": {\"seconds\": 0, "));
  EXPECT_THAT(json, HasSubstr("\"epoch_times\": []"));
  summary.epoch_times.resize(2);
  summary.flags = {"--json=a b"};
  EXPECT_THAT(ToJson(summary), HasSubstr("\"flags\": [\"--json=a b\"]"));
  summary.eval_accuracy = 0.875;
  EXPECT_THAT(ToJson(summary), HasSubstr("\"eval_accuracy\": 0.875"));
}

// One list of keys serves both: what is written is what is read.
TEST(RunSummary, IsReadAsItWasWritten) {
  RunSummary summary;
  summary.ended = "failed";
  summary.error = "no server";
  summary.model = "mlp";
  summary.world_size = 2;
  summary.batch_size = 64;
  summary.parameters = uint64_t{1} << 40;
  summary.samples_per_second = 1234.5;
  summary.rank_stall_shares = {0.5, 0.25};
  summary.where_the_time_went = {"waited 50 %: decoding on the server"};
  summary.times.seconds = 10;
  summary.times.steps = 100;
  summary.times.forward_seconds = 4;
  summary.times.wait_cause = WaitCause::kSharedMemory;
  summary.epoch_times = {summary.times, RunTimes()};
  summary.loss = {-0.25, std::nan(""), 3};
  summary.eval_accuracy = 0.875;
  summary.bad_samples.policy = "ZERO";
  summary.bad_samples.empty_rows = {1, 0};
  summary.bad_samples.damaged = {{"d", "a.lmdb", -1, 7, "no \"JPEG\""}, {}};
  summary.loss_scale = 1024;
  summary.skipped_steps = 3;
  summary.plan_hash = "00ff";
  summary.flags = {"--json=a b"};
  const std::string json = ToJson(summary);
  EXPECT_THAT(json, HasSubstr("\"parameters\": 1099511627776,"))
      << "a number, not a string";
  EXPECT_THAT(json, HasSubstr("\"damaged\": [\n"));
  const auto read = ParseRunSummary(json, "run.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), json);
  EXPECT_EQ(read->times.wait_cause, WaitCause::kSharedMemory);
  EXPECT_EQ(read->epoch_times[1].wait_cause, std::nullopt);
  EXPECT_EQ(read->bad_samples.damaged[0].row, -1);
  EXPECT_TRUE(std::isnan(read->loss[1]));
}

TEST(RunSummary, KeepsDefaultsForValuesOfAnotherType) {
  const auto read = ParseRunSummary(
      R"({"ended": 5, "error": 5, "world_size": "x", "steps": null,
          "eval_accuracy": "x", "times": 5, "epoch_times": {}, "flags": 5,
          "bad_samples": [], "skipped_steps": "x"})",
      "run.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), ToJson(RunSummary()));
}

}  // namespace
}  // namespace millrace::diagnosis
