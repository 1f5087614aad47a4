#include "client/diagnosis/run_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/diagnosis/run_compare.h"
#include "client/diagnosis/run_summary.h"
#include "common/count_text.h"

namespace millrace::diagnosis {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A run on a GPU that computes all the time.
RunSummary Healthy() {
  RunSummary run;
  run.model = "resnet18";
  run.dataset = "photos";
  run.device = "cuda:0";
  run.endpoint = "data-1:7001";
  run.batch_size = 256;
  run.times.seconds = 100;
  run.times.steps = 1000;
  run.times.samples = 256000;
  run.times.data_seconds = 1;
  run.times.copy_seconds = 2;
  run.times.device_copy_seconds = 10;
  run.times.forward_seconds = 30;
  run.times.backward_seconds = 60;
  run.times.optimizer_seconds = 5;
  run.times.cpu_seconds = 60;
  run.times.cpus = 16;
  run.times.device_busy = 0.97;
  run.times.device_busy_source = "nvml";
  run.times.wait_cause = WaitCause::kConsumer;
  return run;
}

// Forward, backward and optimiser take `seconds` without waits for other ranks.
void SetCompute(RunSummary& run, double seconds) {
  RunTimes& t = run.times;
  t.forward_seconds = 0.3 * seconds;
  t.optimizer_seconds = 0.05 * seconds;
  t.backward_seconds = 0.65 * seconds + t.allreduce_seconds - t.ranks_seconds;
}

RunSummary Waiting(std::optional<WaitCause> cause) {
  RunSummary run = Healthy();
  run.times.data_seconds = 40;
  SetCompute(run, 55);
  run.times.wait_cause = cause;
  return run;
}

std::vector<std::string> Parts(const RunSummary& run) {
  std::vector<std::string> parts;
  for (const Finding& finding : JudgeRun(run))
    parts.emplace_back(NameOf(finding.part));
  return parts;
}

std::string AdviceOf(const Finding& finding) {
  return absl::StrJoin(finding.advice, "\n");
}

TEST(Doctor, ABusyDeviceMeansTheModel) {
  const std::vector<Finding> findings = JudgeRun(Healthy());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(NameOf(findings[0].part), "compute");
  EXPECT_THAT(findings[0].text, HasSubstr("the model takes 95 % of the time"));
  EXPECT_THAT(findings[0].text, HasSubstr("the GPU is busy 97 %"));
  EXPECT_EQ(findings[0].max_gain, 0) << "no bound is told of so little rest";
  EXPECT_THAT(GainText(findings[0]), HasSubstr("nearly all of the time"));
  const std::string advice = AdviceOf(findings[0]);
  EXPECT_THAT(advice, HasSubstr("--precision="));
  EXPECT_THAT(advice, HasSubstr("--batch_size=512"));
  EXPECT_THAT(advice, HasSubstr("--graph"));
  EXPECT_THAT(advice, HasSubstr("--nproc=2"));
  RunSummary on_cpu = Healthy();
  on_cpu.device = "cpu";
  EXPECT_THAT(AdviceOf(JudgeRun(on_cpu)[0]), Not(HasSubstr("--graph")));
}

// A run that ended because its server was silent got "the model takes 97 %".
TEST(Doctor, AFinalWaitForDataComesFirst) {
  RunSummary run = Healthy();
  EXPECT_EQ(EndText(run), "");
  run.ended = "failed";
  run.error = "no batch within 12s: waiting for epoch 3 step 1";
  run.final_wait_seconds = 12;
  run.times.data_seconds = 13;
  EXPECT_EQ(EndText(run),
            "the run failed: no batch within 12s: waiting for epoch 3 step 1");
  std::vector<Finding> findings = JudgeRun(run);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(NameOf(findings[0].part), "no_answer");
  EXPECT_DOUBLE_EQ(findings[0].share, 0.12);
  EXPECT_EQ(GainText(findings[0]), "");
  EXPECT_THAT(findings[0].text, HasSubstr("a wait of 12 s for a batch"));
  EXPECT_THAT(AdviceOf(findings[0]),
              HasSubstr("millrace status --endpoint=data-1:7001"));
  // The same wait is named once.
  EXPECT_EQ(Parts(run), (std::vector<std::string>{"no_answer", "compute"}));
  run.times.wait_cause = WaitCause::kNoAnswer;
  EXPECT_EQ(Parts(run), (std::vector<std::string>{"no_answer", "compute"}));

  run.ended = "stopped";
  run.error = "stopped by signal 15 before epoch 60, step 1";
  EXPECT_EQ(EndText(run),
            "the run was stopped by signal 15 before epoch 60, step 1");
  EXPECT_EQ(Parts(run)[0], "no_answer");
  // Before the first step, too.
  run.times.steps = 0;
  EXPECT_TRUE(CheckHasSteps(run, "run.json").ok());
  run.final_wait_seconds = 0;
  EXPECT_THAT(std::string(CheckHasSteps(run, "run.json").message()),
              HasSubstr("the run was stopped by signal 15"));
}

// "The cause is not clear" was said of a wait for the first batches.
TEST(Doctor, AWaitForTheFirstBatchesIsNoBottleneck) {
  RunSummary run = Healthy();
  run.times.seconds = 10;
  run.times.data_seconds = 1.2;
  run.times.start_seconds = 1.1;
  run.times.start_data_seconds = 1;
  run.times.device_copy_seconds = 1;
  SetCompute(run, 8.5);
  for (const WaitCause cause : {WaitCause::kUnclear, WaitCause::kDecoding}) {
    run.times.wait_cause = cause;
    EXPECT_EQ(Parts(run), (std::vector<std::string>{"compute", "start"}));
  }
  const Finding finding = JudgeRun(run).back();
  EXPECT_DOUBLE_EQ(finding.share, 0.12);
  EXPECT_EQ(finding.text,
            "the trainer waited for data 12 % of the time, for the first "
            "batches: 1 s of the first 1.1 s of the run, and 2.2 % of the time "
            "after them");
  EXPECT_THAT(AdviceOf(finding), HasSubstr("longer run"));
  // It went on waiting.
  run.times.data_seconds = 1.5;
  run.times.wait_cause = WaitCause::kUnclear;
  EXPECT_EQ(Parts(run)[0], "data");
  // Too little came after the start to tell.
  run.times.data_seconds = 1.2;
  run.times.start_seconds = 9.5;
  EXPECT_EQ(Parts(run)[0], "data");
  // A summary of an earlier version.
  run.times.start_seconds = run.times.start_data_seconds = 0;
  EXPECT_EQ(Parts(run)[0], "data");
  // It is another cause, wherever it was.
  run.times.start_seconds = run.times.start_data_seconds = 1;
  run.times.wait_cause = WaitCause::kNoAnswer;
  EXPECT_EQ(Parts(run)[0], "no_answer");
}

TEST(Doctor, GivesNoAdviceThatWasFollowedAlready) {
  RunSummary run = Healthy();
  run.flags = {"--precision=bfloat16", "--graph", "--batch_size=256"};
  const std::string advice = AdviceOf(JudgeRun(run)[0]);
  EXPECT_THAT(advice, Not(HasSubstr("--precision")));
  EXPECT_THAT(advice, Not(HasSubstr("--graph")));
  EXPECT_THAT(advice, HasSubstr("--batch_size=512"));
}

// It advised --batch_size=120 of 100 samples, which servers refuse.
TEST(Doctor, AdvisesNoBatchThatAnEpochDoesNotHave) {
  RunSummary run = Healthy();
  run.samples_per_epoch = 511;
  EXPECT_THAT(AdviceOf(JudgeRun(run)[0]), Not(HasSubstr("--batch_size")));
  run.times.device_busy = 0.4;
  EXPECT_THAT(JudgeRun(run)[0].advice[0], HasSubstr("--graph"));
  run.samples_per_epoch = 512;
  EXPECT_THAT(JudgeRun(run)[0].advice[0], HasSubstr("--batch_size=512"));
  // A summary of an earlier version.
  run.samples_per_epoch = 0;
  run.epoch_times = {run.times};
  run.epoch_times[0].samples = 256;
  run.times.allreduce_seconds = 40;
  SetCompute(run, 20);
  for (const Finding& finding : JudgeRun(run)) {
    EXPECT_THAT(AdviceOf(finding), Not(HasSubstr("--batch_size")))
        << NameOf(finding.part);
  }
}

TEST(Doctor, AdvisesRanksThatDivideTheBatch) {
  RunSummary run = Healthy();
  EXPECT_THAT(AdviceOf(JudgeRun(run)[0]), Not(HasSubstr("divisible")));
  run.batch_size = 255;
  EXPECT_THAT(AdviceOf(JudgeRun(run)[0]),
              HasSubstr("--nproc=2, or more machines with torchrun (with a "
                        "batch size that is divisible by 2)"));
}

TEST(Doctor, AGpuInSmallPiecesNeedsALargerBatchFirst) {
  RunSummary run = Healthy();
  run.times.device_busy = 0.4;
  EXPECT_THAT(JudgeRun(run)[0].advice[0], HasSubstr("--batch_size"));
  EXPECT_THAT(JudgeRun(run)[0].advice[1], HasSubstr("--graph"));
  run.times.device_busy_source = "step_times";
  EXPECT_THAT(JudgeRun(run)[0].advice[0], HasSubstr("--precision"))
      << "that is no figure of the GPU";
}

TEST(Doctor, NamesThePartThatBatchesWaitedAt) {
  const struct {
    const char* cause;
    const char* part;
    const char* advice;
  } kCases[] = {{"reading", "storage", "--read_threads"},
                {"decoding", "decoding", "--endpoint=data-1:7001,"},
                {"augmenting", "augmenting", "--threads"},
                {"work", "servers", "--threads"},
                {"link", "network", "COMPRESSION_ZSTD"},
                {"shared_memory", "shared_memory", "uint8"},
                {"memory", "server_memory", "--memory_budget"},
                {"window", "window", "--window"},
                {"preparing", "copy", "uint8"},
                {"unclear", "data", "millrace status"},
                {"", "data", "millrace bench"},
                {"a word of the future", "data", "millrace bench"}};
  for (const auto& [cause, part, advice] : kCases) {
    const std::vector<Finding> findings = JudgeRun(Waiting(WaitCauseOf(cause)));
    ASSERT_GE(findings.size(), 1u);
    EXPECT_EQ(NameOf(findings[0].part), part);
    EXPECT_THAT(findings[0].text, HasSubstr("waited for data 40 %"));
    EXPECT_THAT(AdviceOf(findings[0]), HasSubstr(advice)) << cause;
    EXPECT_NEAR(findings[0].max_gain, 1 / 0.6, 1e-9);
    EXPECT_THAT(GainText(findings[0]), HasSubstr("at most 1.67 times as fast"));
    EXPECT_EQ(NameOf(findings.back().part), "compute") << "what is left then";
  }
}

// A second program on the machine made every part slower, and the doctor spoke
// of the model alone.
TEST(Doctor, NamesOtherProgramsThatTakeTheCores) {
  RunSummary run = Healthy();
  run.times.seconds = 100;
  run.times.cpus = run.times.machine_cpus = 16;
  run.times.other_cpu_seconds = 640;
  EXPECT_EQ(OtherProgramsText(run.times),
            "other programs on the trainer's machine use 6.4 of its 16 cores");
  const Finding last = JudgeRun(run).back();
  EXPECT_EQ(NameOf(last.part), "other_programs");
  EXPECT_DOUBLE_EQ(last.share, 0.4);
  EXPECT_EQ(GainText(last), "") << "what they cost is not known";
  EXPECT_THAT(last.text,
              HasSubstr("6.4 of its 16 cores, including data servers"));
  EXPECT_EQ(NameOf(JudgeRun(run)[0].part), "compute")
      << "what the time went to";
  // Where the CPU computes the model and has no time for it, that is first.
  run.device = "cpu";
  EXPECT_EQ(Parts(run)[0], "compute");
  run.times.other_cpu_seconds = 1440;
  EXPECT_EQ(Parts(run)[0], "other_programs");
  EXPECT_EQ(Parts(run)[1], "compute");
  run.times.data_seconds = 40;
  SetCompute(run, 55);
  run.times.wait_cause = WaitCause::kDecoding;
  // By size, but for the wait for servers that are among these programs.
  EXPECT_THAT(Parts(run), ElementsAre("other_programs", "decoding", "compute"));
  run.endpoint = "127.0.0.1:7001,localhost:7002";
  EXPECT_THAT(Parts(run), ElementsAre("decoding", "other_programs", "compute"));
  run.endpoint = "127.0.0.1:7001,data-1:7001";
  EXPECT_EQ(Parts(run)[0], "other_programs");
  run.times.other_cpu_seconds = 480;
  EXPECT_THAT(Parts(run), ElementsAre("decoding", "compute", "other_programs"));
  run = Healthy();
  run.times.cpus = run.times.machine_cpus = 16;
  // Told, and no finding.
  run.times.other_cpu_seconds = 300;
  EXPECT_THAT(OtherProgramsText(run.times), HasSubstr("3.0 of its 16 cores"));
  EXPECT_THAT(Parts(run), Not(Contains("other_programs")));
  // Not worth a word; nothing is known; more than there can be.
  run.times.other_cpu_seconds = 5;
  EXPECT_EQ(OtherProgramsText(run.times), "");
  run.times.other_cpu_seconds = 640;
  run.times.machine_cpus = 0;
  EXPECT_EQ(OtherProgramsText(run.times), "");
  EXPECT_THAT(Parts(run), Not(Contains("other_programs")));
  run.times.machine_cpus = 1;
  EXPECT_THAT(OtherProgramsText(run.times), HasSubstr("0.4 of its 1 core"))
      << "this process used 0.6";
}

// "CPU 39 % of 2 cores" was followed by "other programs on the trainer's
// machine use 2.0 of its 2 cores": a tick of /proc/stat is as long as the run.
TEST(Doctor, CountsNoMoreCoresThanThereAre) {
  RunSummary run = Healthy();
  run.times.cpus = run.times.machine_cpus = 2;
  run.times.cpu_seconds = 78;
  run.times.other_cpu_seconds = 200;
  EXPECT_EQ(OtherProgramsText(run.times),
            "other programs on the trainer's machine use 1.2 of its 2 cores");
  const Finding last = JudgeRun(run).back();
  EXPECT_EQ(NameOf(last.part), "other_programs");
  EXPECT_DOUBLE_EQ(last.share, 0.61);
  run.times.cpu_seconds = 250;
  EXPECT_EQ(OtherProgramsText(run.times), "");

  run.times.seconds = 0.02;
  run.times.cpu_seconds = 0.0156;
  run.times.other_cpu_seconds = 0.04;
  EXPECT_EQ(OtherProgramsText(run.times), "");
  EXPECT_THAT(Parts(run), Not(Contains("other_programs")));
}

TEST(Doctor, SaysWhenARunIsTooShort) {
  RunSummary run = Healthy();
  EXPECT_EQ(TooShortText(run.times), "");
  run.times.steps = 9;
  EXPECT_THAT(TooShortText(run.times),
              HasSubstr("too short to judge: 9 steps in 100 s (fewer than 10 "
                        "steps); train"));
  run.times.seconds = 1710;  // once written as 1.71e+03 s
  EXPECT_THAT(TooShortText(run.times), HasSubstr("9 steps in 1,710 s"));
  run.times.steps = 10;
  EXPECT_EQ(TooShortText(run.times), "");
  run.times.seconds = 0.02;
  EXPECT_THAT(TooShortText(run.times),
              HasSubstr("10 steps in 0.02 s (less than 1 s); train at least 10 "
                        "steps and 1 s"));
  run.times.steps = 1;
  EXPECT_THAT(TooShortText(run.times),
              HasSubstr("1 step in 0.02 s (fewer than 10 steps and less than "
                        "1 s)"));
}

TEST(Doctor, GivesNoAdviceForARunThatIsTooShort) {
  RunSummary run = Waiting(WaitCause::kDecoding);
  EXPECT_FALSE(JudgeRun(run)[0].advice.empty());
  run.times.steps = 9;
  const std::vector<Finding> findings = JudgeRun(run);
  ASSERT_EQ(findings.size(), 2u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(AdviceOf(finding), "") << finding.text;
  }
}

// "at most 201.84 times as fast" was said of a run that waited nearly always.
TEST(Doctor, PromisesNoFactorOfARunThatOnlyWaits) {
  RunSummary run = Waiting(WaitCause::kReading);
  run.times.data_seconds = 99.5;
  SetCompute(run, 0.4);
  const Finding finding = JudgeRun(run)[0];
  EXPECT_EQ(NameOf(finding.part), "storage");
  EXPECT_EQ(finding.max_gain, 0);
  EXPECT_THAT(GainText(finding), Not(HasSubstr("times as fast")));
}

TEST(Doctor, OnTheCpuTheTrainersOwnWorkGoesToTheServers) {
  RunSummary run = Waiting(WaitCause::kPreparing);
  run.device = "cpu";
  std::vector<Finding> findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "trainer_cpu");
  EXPECT_THAT(AdviceOf(findings[0]), HasSubstr("PLACEMENT_SERVER"));
  EXPECT_THAT(AdviceOf(findings[0]), HasSubstr("--prepare_ahead"));
  // With a thread of its own nobody waits, but the cores work for it.
  run.flags = {"--prepare_ahead"};
  run.times.data_seconds = 2;
  run.times.wait_cause = WaitCause::kConsumer;
  run.times.copy_seconds = 30;
  findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "trainer_cpu");
  EXPECT_THAT(findings[0].text, HasSubstr("30 %"));
}

// 40 % of waiting and 30 % of copying within it made 70 % of the time.
TEST(Doctor, EachSecondCountsOnce) {
  RunSummary run = Waiting(WaitCause::kDecoding);
  run.device = "cpu";
  run.times.copy_seconds = 30;
  std::vector<Finding> findings = JudgeRun(run);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(NameOf(findings[0].part), "trainer_cpu");
  EXPECT_DOUBLE_EQ(findings[0].share, 0.3);
  EXPECT_EQ(NameOf(findings[1].part), "decoding");
  EXPECT_DOUBLE_EQ(findings[1].share, 0.1);
  EXPECT_THAT(findings[1].text, HasSubstr("waited for data 10 %"));
  // Beside the step it is no part of the wait.
  run.flags = {"--prepare_ahead"};
  findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "decoding");
  EXPECT_DOUBLE_EQ(findings[0].share, 0.4);
  EXPECT_DOUBLE_EQ(run.waited_for_servers(), 40);
}

// "4 samples, 0 samples/s".
TEST(Doctor, SmallRatesAreNotZero) {
  EXPECT_EQ(RateText(0.417), "0.417");
  EXPECT_EQ(RateText(12.34), "12.3");
  EXPECT_EQ(RateText(12345.6), "12,346");
}

TEST(Doctor, BesideAGpuBusyCoresAreNamedWithoutAPromise) {
  RunSummary run = Healthy();
  run.times.cpu_seconds = 1500;
  const std::vector<Finding> findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "trainer_cpu");
  EXPECT_EQ(findings[0].max_gain, 1);
  EXPECT_EQ(GainText(findings[0]), "");
}

TEST(Doctor, CopiesThatFillTheLinkAreNamed) {
  RunSummary run = Healthy();
  run.times.device_copy_seconds = 70;
  EXPECT_THAT(Parts(run), ElementsAre("copy", "compute"));
}

TEST(Doctor, WaitingForOtherRanksIsTheAllReduceOrARankWithoutData) {
  RunSummary run = Healthy();
  run.world_size = 4;
  run.times.allreduce_seconds = 30;
  SetCompute(run, 65);
  run.rank_stall_shares = {0.01, 0.01, 0.02, 0.01};
  std::vector<Finding> findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "allreduce");
  EXPECT_THAT(AdviceOf(findings[0]), HasSubstr("--accumulate=4"));
  // The batches of an epoch are combined already.
  run.flags = {"--accumulate=2"};
  run.epoch_seconds = {50, 50};
  run.steps = 2;
  findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "allreduce");
  EXPECT_THAT(AdviceOf(findings[0]), Not(HasSubstr("--accumulate")));
  run.steps = 4;
  EXPECT_THAT(AdviceOf(JudgeRun(run)[0]), HasSubstr("a larger --accumulate"));
  run.rank_stall_shares[2] = 0.3;
  findings = JudgeRun(run);
  EXPECT_EQ(NameOf(findings[0].part), "ranks");
  EXPECT_THAT(findings[0].text, HasSubstr("rank 2"));
}

TEST(Doctor, TimeInNoPartIsOverhead) {
  RunSummary run = Healthy();
  SetCompute(run, 40);
  run.times.forward_seconds = 10;
  run.times.backward_seconds = 25;
  run.times.optimizer_seconds = 5;
  EXPECT_THAT(Parts(run), ElementsAre("overhead"));
  run.times.data_seconds = 3;
  run.times.wait_cause = WaitCause::kConsumer;
  EXPECT_THAT(Parts(run), ElementsAre("overhead")) << "3 % is no bottleneck";
}

// Seconds of epochs of 1000 samples each.
RunSummary Epochs(const std::vector<double>& seconds) {
  RunSummary run = Healthy();
  for (const double one : seconds) {
    RunTimes epoch;
    epoch.seconds = one;
    epoch.samples = 1000;
    run.epoch_times.push_back(epoch);
  }
  return run;
}

TEST(Compare, AChangeHelpedWhenEveryEpochIsFaster) {
  const Comparison comparison =
      CompareRuns(Epochs({9, 2, 2.2, 2.1}), Epochs({7, 1, 1.05, 1.1}));
  EXPECT_EQ(comparison.result, Comparison::Result::kFaster);
  EXPECT_NEAR(comparison.times_as_fast, 2, 1e-9);
  EXPECT_NEAR(comparison.min, 2 / 1.1, 1e-9);
  EXPECT_NEAR(comparison.max, 2.2, 1e-9);
  EXPECT_THAT(comparison.text, HasSubstr("helped: 2.00 times as fast"));
  EXPECT_TRUE(comparison.notes.empty());
  EXPECT_EQ(
      CompareRuns(Epochs({7, 1, 1.05, 1.1}), Epochs({9, 2, 2.2, 2.1})).result,
      Comparison::Result::kSlower);
}

TEST(Compare, WhatTheNoiseAllowsIsAllThatIsClaimed) {
  Comparison comparison =
      CompareRuns(Epochs({9, 2, 2.2, 1.8}), Epochs({9, 1.9, 1.7, 1.5}));
  EXPECT_EQ(comparison.result, Comparison::Result::kNotTold);
  EXPECT_THAT(comparison.text, HasSubstr("overlap"));
  comparison = CompareRuns(Epochs({2}), Epochs({1}));
  EXPECT_EQ(comparison.result, Comparison::Result::kNotTold);
  EXPECT_THAT(comparison.text, HasSubstr("one epoch is not enough"));
  EXPECT_THAT(comparison.notes[0], HasSubstr("--epochs=3"));
  EXPECT_EQ(SecondsPerSample(Epochs({0, 0})).epochs, 1u)
      << "epochs without time do not count; the whole run does";
}

TEST(Compare, ShortEpochsProveNothing) {
  const Comparison comparison = CompareRuns(Epochs({0.09, 0.02, 0.022, 0.021}),
                                            Epochs({0.07, 0.01, 0.011, 0.01}));
  EXPECT_EQ(comparison.result, Comparison::Result::kNotTold);
  EXPECT_THAT(comparison.text, HasSubstr("epochs of 0.02 s before and 0.01 s "
                                         "after are too short"));
  // Of a second that became little no noise makes a claim.
  EXPECT_EQ(CompareRuns(Epochs({9, 2, 2.2, 2.1}), Epochs({0.5, 0.1, 0.1, 0.1}))
                .result,
            Comparison::Result::kFaster);
}

TEST(Compare, SaysWhatElseChanged) {
  RunSummary before = Epochs({2, 2, 2});
  RunSummary after = Epochs({1, 1, 1});
  before.flags = {"--batch_size=64", "--lr=0.1"};
  after.flags = {"--batch_size=64", "--precision=bfloat16"};
  before.eval_accuracy = 0.97;
  after.eval_accuracy = 0.91;
  after.replay_batches = 0;
  Comparison comparison = CompareRuns(before, after);
  const std::string notes = absl::StrJoin(comparison.notes, "\n");
  EXPECT_THAT(notes, HasSubstr("--lr=0.1 -> --precision=bfloat16"));
  EXPECT_THAT(notes, HasSubstr("accuracy fell from 0.9700 to 0.9100"));
  after.replay_batches = 8;
  comparison = CompareRuns(before, after);
  EXPECT_THAT(absl::StrJoin(comparison.notes, "\n"),
              HasSubstr("perfect loader"));
  before.eval_accuracy.reset();
  before.loss = {2, 1};
  after.loss = {2, 1.5};
  after.replay_batches = 0;
  EXPECT_THAT(absl::StrJoin(CompareRuns(before, after).notes, "\n"),
              HasSubstr("loss rose from 1.0000 to 1.5000"));
}

// "0.00 times as fast" was said of a larger model.
TEST(Compare, RunsOfDifferentModelsAreNotCompared) {
  RunSummary after = Epochs({2000, 2000, 2000});
  after.model = "resnet50";
  Comparison comparison = CompareRuns(Epochs({2, 2, 2}), after);
  EXPECT_EQ(comparison.result, Comparison::Result::kNotTold);
  EXPECT_THAT(comparison.text,
              HasSubstr("not compared: the models differ (resnet18 before, "
                        "resnet50 after)"));
  EXPECT_THAT(comparison.text, Not(HasSubstr("times as fast")));
  after.model = "resnet18";
  comparison = CompareRuns(Epochs({2, 2, 2}), after);
  EXPECT_THAT(comparison.text, HasSubstr("hurt: 0.001 times as fast (0.001 to "
                                         "0.001 over the epochs): 500 "
                                         "samples/s before, 0.5 after"));
}

constexpr char kSummary[] = R"({
  "model": "mlp", "dataset": "d", "device": "cpu", "world_size": 2,
  "batch_size": 64, "samples_per_epoch": 3200, "parameters": 10, "rank_stall_shares": [0.5, 0.25],
  "where_the_time_went": ["waited 50 %: decoding on the server"],
  "times": {"seconds": 10, "steps": 100, "samples": 6400,
            "data_seconds": 5, "forward_seconds": 1, "backward_seconds": 2,
            "optimizer_seconds": 1, "compute_seconds": 4, "cpu_seconds": 8,
            "cpus": 2, "device_busy": 0.4, "device_busy_source": "step_times",
            "wait_cause": "decoding"},
  "epoch_times": [{"seconds": 6, "samples": 3200},
                  {"seconds": 4, "samples": 3200}],
  "loss": [2, null], "eval_accuracy": 0.5, "flags": ["--window=8", "-graph"]
})";

TEST(RunSummaryTest, ReadsASummary) {
  const auto run = ParseRunSummary(kSummary, "s.json");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->times.wait_cause, WaitCause::kDecoding);
  EXPECT_DOUBLE_EQ(run->times.share(run->times.data_seconds), 0.5);
  EXPECT_EQ(run->samples_per_epoch, 3200);
  ASSERT_EQ(run->epoch_times.size(), 2u);
  EXPECT_DOUBLE_EQ(run->epoch_times[1].seconds, 4);
  EXPECT_THAT(run->rank_stall_shares, ElementsAre(0.5, 0.25));
  EXPECT_EQ(run->eval_accuracy, 0.5);
  EXPECT_TRUE(run->has_flag("window"));
  EXPECT_TRUE(run->has_flag("graph"));
  EXPECT_FALSE(run->has_flag("win"));
  EXPECT_TRUE(run->on_cpu());
  EXPECT_EQ(NameOf(JudgeRun(*run)[0].part), "decoding");
}

TEST(RunSummaryTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "x", "[1]", "{", "{}", R"({"times": 5})", R"({"times": {}})",
        R"({"times": {"seconds": 0, "steps": 5}})",
        R"({"times": {"seconds": -5, "steps": 5}})",
        R"({"times": {"seconds": "x", "steps": 5}})"}) {
    const auto run = ParseRunSummary(text, "s.json");
    const absl::Status status =
        run.ok() ? CheckHasSteps(*run, "s.json") : run.status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("s.json"));
  }
  EXPECT_TRUE(absl::IsNotFound(ReadRunSummary("/no/such/file.json").status()));
}

// Whatever is in a file, there is an answer: cut anywhere, or with numbers that
// no run has.
TEST(RunSummaryTest, SurvivesDamage) {
  const std::string whole(kSummary);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto run = ParseRunSummary(whole.substr(0, size), "s.json");
    if (run.ok()) JudgeRun(*run);
  }
  const auto hostile = ParseRunSummary(
      R"({"times": {"seconds": 1e308, "steps": 1e308, "samples": 1e308,
          "data_seconds": 1e308, "allreduce_seconds": -1e308, "cpus": -2,
          "cpu_seconds": 1e308, "device_busy": 77, "wait_cause": 5},
          "epoch_times": [1, "x", null, {"seconds": 1e-308, "samples": 1e308}],
          "rank_stall_shares": [null, 1e308, -1], "batch_size": 1e308,
          "world_size": -3, "flags": [1, null, "--", "-"], "loss": "x"})",
      "s.json");
  ASSERT_TRUE(hostile.ok()) << hostile.status();
  for (const Finding& finding : JudgeRun(*hostile)) {
    EXPECT_LE(finding.share, 1);
    EXPECT_LE(finding.max_gain, 1001);
  }
  CompareRuns(*hostile, Healthy());
  CompareRuns(Healthy(), *hostile);
  EXPECT_FALSE(hostile->has_flag("graph"));
}

}  // namespace
}  // namespace millrace::diagnosis
