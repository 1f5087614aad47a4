// The whole way as a user goes it: packed data, a real server, the trainer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/train_world.h"
#include "trainer/checkpoint.h"
#include "trainer/models/model.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Of the mlp that the runs here train.
std::vector<torch::Tensor> Weights(const std::string& checkpoint) {
  auto model =
      models::MakeModel("mlp", {.channels = 1, .height = 28, .width = 28}, 10);
  EXPECT_TRUE(model.ok()) << model.status();
  const absl::Status restored =
      trainer::RestoreCheckpoint(checkpoint, **model, {});
  EXPECT_TRUE(restored.ok()) << restored;
  return (*model)->parameters();
}

TEST_F(Train, LearnsWithTwoRanksAndReports) {
  const ProgramResult run =
      Run({"--eval_dataset=test", "--epochs=4", "--nproc=2",
           "--json=" + Path("summary.json")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("2 ranks"), HasSubstr("epoch 4/4")));
  // "768 samples, 569, waiting for data": a rate without its unit.
  EXPECT_THAT(
      run.out,
      AllOf(
          ContainsRegex(
              "epoch 4/4: loss [0-9.]+, [0-9.]+ s, [0-9,.]+ samples/s, "),
          ContainsRegex("768 samples, [0-9,.]+ samples/s, waiting for data ")));
  const std::string json = ReadFile(Path("summary.json"));
  // Chance is 0.1.
  EXPECT_GT(Number(json, "eval_accuracy"), 0.8) << json;
  EXPECT_GT(Number(json, "samples_per_second"), 0);
  EXPECT_GE(Number(json, "stall_share"), 0);
  EXPECT_EQ(Number(json, "steps"), 24);
  EXPECT_EQ(Number(json, "samples"), 4 * 192);
  EXPECT_THAT(
      json, AllOf(HasSubstr("\"epoch_seconds\": ["), HasSubstr("\"loss\": [")));
  EXPECT_EQ(json.find("acc"), json.rfind("acc")) << json;
}

// 200 samples in batches of 32: of the padded last one the first rank gets all
// 8 samples and the second none.
TEST_F(Train, GivesTheSameLossesWithTwoRanksAsWithOne) {
  for (const char* model : {"mlp", "cnn"}) {
    for (const char* ranks : {"1", "2"}) {
      const ProgramResult run =
          Run({absl::StrCat("--model=", model), absl::StrCat("--nproc=", ranks),
               "--epochs=2", "--last_batch=pad",
               "--step_losses=" + Path(absl::StrCat(model, ranks))});
      ASSERT_EQ(run.exit_code, 0) << run.err;
    }
    const std::vector<double> losses = Losses(absl::StrCat(model, "1"));
    EXPECT_EQ(losses.size(), 14u);
    EXPECT_LT(losses.back(), losses.front());
    ExpectNear(losses, Losses(absl::StrCat(model, "2")), 1e-5);
  }
}

// Partners of a pair lie on one rank or on two, the last pair is half padding;
// labels are shares of classes.
TEST_F(Train, LearnsFromMixedBatchesAlikeWithOneRankAndTwo) {
  WriteFile(Path("mixed.textproto"),
            "batch_size: 34 "
            "transforms { mix_up { alpha: 0.3 p: 0.5 } } "
            "transforms { cut_mix { p: 0.5 } } "
            "transforms { normalize { mean: 0.13 stddev: 0.31 } }");
  for (const char* ranks : {"1", "2"}) {
    const ProgramResult run =
        Run({"--pipeline=" + Path("mixed.textproto"), "--batch_size=34",
             absl::StrCat("--nproc=", ranks), "--epochs=6", "--last_batch=pad",
             "--eval_dataset=test", "--json=" + Path("mixed.json"),
             "--step_losses=" + Path(absl::StrCat("mixed", ranks))});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_GT(Number(ReadFile(Path("mixed.json")), "eval_accuracy"), 0.8);
  }
  EXPECT_EQ(Losses("mixed1").size(), 36u);
  ExpectNear(Losses("mixed1"), Losses("mixed2"), 1e-4);
}

TEST_F(Train, StartsFromTheEnvironmentOfTorchrun) {
  ASSERT_EQ(Run({"--step_losses=" + Path("alone")}).exit_code, 0);
  TwoRanks ranks({"--step_losses=" + Path("two")});
  EXPECT_EQ(ranks.zero.Wait(), 0) << ranks.zero.Stderr();
  EXPECT_EQ(ranks.one.Wait(), 0) << ranks.one.Stderr();
  EXPECT_THAT(ranks.one.Stdout(), Not(HasSubstr("epoch")))
      << "rank 0 alone reports";
  ExpectNear(Losses("alone"), Losses("two"), 1e-5);
}

// Two ranks are stopped in epoch 2, one goes on, then two again: the audit
// finds every sample once.
TEST_F(Train, WhatARunWasGivenCanBeProvedAndHadAgain) {
  const std::string checkpoint = Path("audited.ckpt");
  const std::string logs = NewTempDir();
  const ProgramResult alone =
      Run({"--epochs=2", "--max_steps=3", "--checkpoint=" + checkpoint,
           "--audit_dir=" + logs});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const ProgramResult first =
      Run({"--nproc=2", "--epochs=2", "--max_steps=5", "--resume=" + checkpoint,
           "--checkpoint=" + checkpoint, "--audit_dir=" + logs});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("  waited "));
  const ProgramResult rest =
      Run({"--epochs=2", "--resume=" + checkpoint, "--audit_dir=" + logs,
           "--json=" + Path("audited.json")});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  const std::string summary = ReadFile(Path("audited.json"));
  EXPECT_THAT(summary, AllOf(HasSubstr("\"rank_stall_shares\": ["),
                             HasSubstr("\"where_the_time_went\": [\"waited "),
                             HasSubstr("\"pipeline\": \"")));

  const std::string millrace = ProgramPath("client/cli/millrace");
  const ProgramResult audit =
      RunProgram({millrace, "audit", "--files=" + logs,
                  "--endpoint=" + world_->server->address(),
                  "--expect_epochs=2", "--json"});
  EXPECT_EQ(audit.exit_code, 0) << audit.err;
  EXPECT_THAT(audit.out,
              AllOf(HasSubstr("\"starts\": 3"),
                    HasSubstr("{\"epoch\": 0, \"steps\": 6, \"samples\": 192, "
                              "\"result\": \"exactly_once\"}"),
                    HasSubstr("{\"epoch\": 1, \"steps\": 6, \"samples\": 192, "
                              "\"result\": \"exactly_once\"}")));
  // The summary says what was loaded, and from where.
  const ProgramResult replay =
      RunProgram({millrace, "replay", "--run=" + Path("audited.json"),
                  "--position=1:5", "--output=" + Path("batch")});
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("epoch 1 step 5, rank 0 of 1: 32 rows"));
}

// The log of a job was appended to by another one without a word, and then
// neither could be proved.
TEST_F(Train, RefusesTheAuditLogOfAnotherJob) {
  const std::string logs = "--audit_dir=" + NewTempDir();
  const std::string log = logs.substr(12) + "/rank-00000.mraudit";
  const std::string checkpoint = Path("job.ckpt");
  ASSERT_EQ(
      Run({"--max_steps=4", logs, "--checkpoint=" + checkpoint}).exit_code, 0);
  const std::string before = ReadFile(log);
  for (const char* ranks : {"--nproc=1", "--nproc=2"}) {
    const ProgramResult other = Run({"--batch_size=16", logs, ranks});
    EXPECT_EQ(other.exit_code, 2) << other.err;
    EXPECT_THAT(other.err,
                AllOf(HasSubstr("the audit log " + log +
                                " has steps of another job (plan "),
                      HasSubstr("batch_size (32 in the log, 16 in this run)"),
                      HasSubstr("give every job a folder of its own")));
    // A new run of the same plan would take the place of the old one's steps.
    const ProgramResult again = Run({logs, ranks});
    EXPECT_EQ(again.exit_code, 2) << again.err;
    EXPECT_THAT(again.err,
                AllOf(HasSubstr("the audit log " + log + " has 4 steps of an "),
                      HasSubstr("another --audit_dir"),
                      HasSubstr("--resume=CHECKPOINT")));
  }
  EXPECT_TRUE(ReadFile(log) == before) << "the log was changed";
  // It stayed behind, empty.
  const std::string second = logs.substr(12) + "/rank-00001.mraudit";
  EXPECT_NE(access(second.c_str(), F_OK), 0) << second << " was left behind";
  // A job that was killed before its first checkpoint starts anew in its log.
  const ProgramResult early = Run({"--max_steps=2", logs, "--resume=auto",
                                   "--checkpoint=" + Path("none.ckpt")});
  EXPECT_EQ(early.exit_code, 0) << early.err;
  EXPECT_THAT(early.err, HasSubstr("4 steps of earlier starts in " + log +
                                   " no longer count"));
  const ProgramResult rest = Run({logs, "--resume=" + checkpoint});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  // A log that lost its content was appended to without a word.
  WriteFile(log, before.substr(0, 40));
  const ProgramResult anew = Run({logs, "--resume=" + checkpoint});
  EXPECT_EQ(anew.exit_code, 0) << anew.err;
  EXPECT_THAT(anew.err, AllOf(HasSubstr("the audit log " + log +
                                        " has no whole head of a run"),
                              HasSubstr("this run starts the log again")));
}

TEST_F(Train, GoesOnFromACheckpointAsIfItHadNotStopped) {
  const std::string checkpoint = Path("run.ckpt");
  ASSERT_EQ(Run({"--epochs=2", "--step_losses=" + Path("whole"),
                 "--checkpoint=" + Path("whole.ckpt")})
                .exit_code,
            0);
  ASSERT_EQ(Run({"--epochs=2", "--max_steps=4", "--checkpoint=" + checkpoint,
                 "--step_losses=" + Path("first")})
                .exit_code,
            0);
  const std::vector<torch::Tensor> early = Weights(checkpoint);
  const ProgramResult rest =
      Run({"--epochs=2", "--resume=" + checkpoint, "--checkpoint=" + checkpoint,
           "--step_losses=" + Path("rest")});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  std::vector<double> joined = Losses("first");
  EXPECT_EQ(joined.size(), 4u);
  for (double loss : Losses("rest")) joined.push_back(loss);
  EXPECT_EQ(Losses("whole"), joined);

  // One rank: every bit of every weight is the same.
  const std::vector<torch::Tensor> whole = Weights(Path("whole.ckpt"));
  const std::vector<torch::Tensor> resumed = Weights(checkpoint);
  ASSERT_GT(whole.size(), 0u);
  ASSERT_EQ(whole.size(), resumed.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(torch::equal(whole[i], resumed[i])) << "weight " << i;
    EXPECT_FALSE(torch::equal(whole[i], early[i])) << "weight " << i;
  }

  // What does not belong together is refused.
  EXPECT_THAT(Run({"--epochs=2", "--resume=" + checkpoint}).err,
              HasSubstr("raise --epochs"));
  EXPECT_THAT(Run({"--epochs=3", "--resume=" + checkpoint, "--model=cnn"}).err,
              HasSubstr("--model=mlp"));
}

// It said that "the pipeline, its options, ..." differ, and not which.
TEST_F(Train, NamesTheFlagsThatDifferFromThoseOfTheCheckpoint) {
  const std::string checkpoint = Path("flags.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + checkpoint}).exit_code, 0);
  WriteFile(Path("flip.textproto"),
            "transforms { horizontal_flip {} } "
            "transforms { normalize { mean: 0.13 stddev: 0.31 } }");
  const std::pair<std::vector<std::string>, std::string> kChanges[] = {
      {{"--seed=2"}, "--seed=1, now --seed=2."},
      {{"--batch_size=16", "--seed=3"},
       "--seed=1, now --seed=3; --batch_size=32, now --batch_size=16."},
      {{"--last_batch=pad"}, "--last_batch=drop, now --last_batch=pad."},
      {{"--dataset=test"}, "--dataset=train, now --dataset=test."},
      {{"--train_subset=0:100"}, "sources (--dataset, --train_subset"},
      {{"--pipeline=" + Path("flip.textproto")},
       "transforms (--preset, --pipeline): "},
      {{"--model=cnn", "--optimizer=sgd"},
       "--model=mlp, now --model=cnn; --optimizer=adam, now --optimizer=sgd."},
  };
  for (const auto& [flags, expected] : kChanges) {
    std::vector<std::string> all = {"--resume=" + checkpoint};
    all.insert(all.end(), flags.begin(), flags.end());
    const ProgramResult run = Run(all);
    EXPECT_EQ(run.exit_code, 2) << flags[0] << run.err;
    EXPECT_THAT(run.err,
                AllOf(HasSubstr(checkpoint + " was written with other flags: "),
                      HasSubstr(expected), HasSubstr("without --resume")))
        << flags[0];
  }
}

// It said that the checkpoint was damaged.
TEST_F(Train, RefusesACheckpointOfAnotherNumberOfClasses) {
  const std::string checkpoint = Path("classes.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + checkpoint}).exit_code, 0);
  const ProgramResult run =
      Run({"--resume=" + checkpoint, "--classes=200", "--target=sample_index"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(
      run.err,
      HasSubstr(checkpoint +
                " holds a model for 10 classes, but the data now have 200"));
}

// It ended with 0, though nobody had been told the result.
TEST_F(Train, FailsWhenItsSummaryCannotBePrinted) {
  const std::pair<std::string, std::string> kPlaces[] = {
      {"> /dev/full", "No space left"},
      // The summary went into a socket or a file that had the number 1.
      {">&-", "Bad file descriptor"}};
  for (const auto& [place, reason] : kPlaces) {
    for (const char* ranks : {"--nproc=0", "--nproc=2"}) {
      std::vector<std::string> lost = {"/bin/sh", "-c", "exec \"$@\" " + place,
                                       "sh"};
      for (const std::string& word : Command({"--max_steps=2", ranks})) {
        lost.push_back(word);
      }
      const ProgramResult run = RunProgram(lost);
      EXPECT_EQ(run.exit_code, 1) << place << " " << ranks;
      EXPECT_THAT(run.err, AllOf(HasSubstr("cannot write to standard output"),
                                 HasSubstr(reason)));
    }
  }
}

TEST_F(Train, WritesACheckpointWhenItIsStopped) {
  const std::string checkpoint = Path("stopped.ckpt");
  Subprocess run(Command({"--epochs=100000", "--checkpoint=" + checkpoint,
                          "--json=" + Path("stopped.json")}));
  WaitForOutput(run, "epoch 2/");
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(), HasSubstr("stopped by signal 15"));
  // The numbers of the epochs before were lost with a stop.
  const std::string json = ReadFile(Path("stopped.json"));
  EXPECT_THAT(json, AllOf(HasSubstr("\"ended\": \"stopped\""),
                          HasSubstr("\"error\": \"stopped by signal 15")));
  EXPECT_GT(Number(json, "samples_per_second"), 0);
  const ProgramResult rest =
      Run({"--epochs=100000", "--max_steps=1", "--resume=" + checkpoint});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
}

// Ctrl-C reaches the whole process group: launcher and, were they in it, ranks.
TEST_F(Train, WritesACheckpointWhenATerminalInterruptsItsRanks) {
  const std::string checkpoint = Path("interrupted.ckpt");
  std::vector<std::string> command =
      Command({"--epochs=100000", "--nproc=2", "--checkpoint=" + checkpoint});
  command.insert(command.begin(), "/usr/bin/setsid");
  Subprocess run(command);
  WaitForOutput(run, "epoch 2/");
  ASSERT_EQ(kill(-run.pid(), SIGINT), 0);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(), HasSubstr("stopped by signal 2 (Interrupt)"));
  EXPECT_THAT(run.Stderr(), HasSubstr("stopped by signal 15 before"))
      << "the ranks were told by the launcher alone";
  ExpectResumes(checkpoint);
}

TEST_F(Train, WritesACheckpointWhenASignalComesTwiceAtOnce) {
  const std::string checkpoint = Path("twice.ckpt");
  Subprocess run(Command({"--epochs=100000", "--checkpoint=" + checkpoint}));
  WaitForOutput(run, "epoch 2/");
  run.Signal(SIGINT);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
  ExpectResumes(checkpoint);
}

TEST_F(Train, EndsAllRanksWhenOneIsStopped) {
  const std::string checkpoint = Path("one_stopped.ckpt");
  TwoRanks ranks({"--epochs=100000", "--checkpoint=" + checkpoint});
  WaitForOutput(ranks.zero, "epoch 2/");
  ranks.one.Signal(SIGTERM);
  EXPECT_EQ(ranks.zero.Wait(), 1);
  EXPECT_EQ(ranks.one.Wait(), 1);
  EXPECT_THAT(ranks.zero.Stderr(), HasSubstr("because rank 1 of 2 stopped"));
  EXPECT_THAT(ranks.one.Stderr(), HasSubstr("stopped by signal 15"));
  ExpectResumes(checkpoint);
}

TEST_F(Train, WritesACheckpointAfterEachEpoch) {
  const std::string checkpoint = Path("epoch.ckpt");
  Subprocess run(Command({"--epochs=100000", "--checkpoint=" + checkpoint}));
  WaitForOutput(run, "checkpoint before epoch 2, step 1");
  run.Signal(SIGKILL);  // no time for another one
  run.Wait();
  ExpectResumes(checkpoint);
}

// As torchrun and Kubernetes do it when the end itself was disturbed.
TEST_F(Train, IsJudgedAgainWhenItIsStartedAfterItsEnd) {
  const std::vector<std::string> flags = {
      "--epochs=2", "--eval_dataset=test", "--resume=auto",
      "--checkpoint=" + Path("ended.ckpt"), "--json=" + Path("ended.json")};
  ASSERT_EQ(Run(flags).exit_code, 0);
  const double accuracy = Number(ReadFile(Path("ended.json")), "eval_accuracy");
  EXPECT_GT(accuracy, 0);
  const std::string checkpoint = ReadFile(Path("ended.ckpt"));
  const ProgramResult again = Run(flags);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("has trained all 2 epochs"));
  EXPECT_EQ(Number(ReadFile(Path("ended.json")), "eval_accuracy"), accuracy);
  EXPECT_EQ(Number(ReadFile(Path("ended.json")), "steps"), 0);
  EXPECT_TRUE(ReadFile(Path("ended.ckpt")) == checkpoint);
}

TEST_F(Train, GoesOnWithTheLearningRateGivenNow) {
  const std::string checkpoint = Path("lr.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + checkpoint}).exit_code, 0);
  // Nothing but its own learning rate makes the second run diverge.
  const ProgramResult rest = Run({"--resume=" + checkpoint, "--lr=1e30"});
  EXPECT_EQ(rest.exit_code, 1);
  EXPECT_THAT(rest.err, HasSubstr("the loss is"));
}

TEST_F(Train, WritesACheckpointWhenTheServersAreGone) {
  auto server = ServerProcess::Start(world_->flags);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string checkpoint = Path("gone.ckpt");
  Subprocess run(
      Command({"--endpoint=" + (*server)->address(), "--epochs=100000",
               "--data_timeout=1s", "--checkpoint=" + checkpoint}));
  WaitForOutput(run, "epoch 2/");
  (*server)->process().Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(), HasSubstr((*server)->address()));
  EXPECT_EQ(access(checkpoint.c_str(), F_OK), 0) << run.Stderr();
}

// And whoever reads its output or its summary cannot take it for training.
TEST_F(Train, RepeatsItsFirstBatchesAndSaysSo) {
  const std::string json = Path("replay.json");
  const ProgramResult run =
      Run({"--repeat_batches=2", "--epochs=3", "--json=" + json});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("epoch 3/3"),
                             HasSubstr("the first 2 batches were repeated")));
  EXPECT_THAT(ReadFile(json), AllOf(HasSubstr("\"replay_batches\": 2"),
                                    HasSubstr("\"steps\": 18")));
}

// As the other programs: a supervisor that starts a run again after 1 must not
// do so for ever.
TEST_F(Train, EndsWithTwoForMistakesOfTheCommandLine) {
  const std::string garbage = Path("garbage");
  WriteFile(garbage, "no checkpoint");
  const std::pair<std::vector<std::string>, std::string> kMistakes[] = {
      {{"--nproc=3"}, "multiple"},
      {{"--step_timeout=0"}, "--step_timeout=0: expected a time above 0"},
      {{"--data_timeout=inf"}, "at most one year"},
      {{"--rank_timeout=nan"}, "expected a time above 0"},
      {{"--epochs=many"}, "epochs"},
      {{"--no_such_flag=1"}, "no_such_flag"},
      {{"--preset=a", "--pipeline=b"}, "cannot be used together"},
      {{"stray"}, "stray"},
      // The summary was written to a file of that name.
      {{"--json", "--epochs=2"},
       "--json needs a value, and `--epochs=2` looks like another flag; if it "
       "is the value, write --json=--epochs=2"},
      {{"-json", "-epochs"}, "--json needs a value, and `-epochs` looks like"},
      {{"--json", "--help"}, "--json needs a value"},
      {{"--epoch=2"}, "did you mean --epochs?"},
      // Found when the data servers are asked, and no less a mistake.
      {{"--preset=nothing"}, "nothing"},
      {{"--dataset=nothing"}, "nothing"},
      {{"--dataset=nothing", "--preset=mnist"}, "nothing"},
      {{"--eval_dataset=nothing"}, "nothing"},
      {{"--nproc=2", "--preset=nothing"}, "nothing"},
      {{"--pipeline=/no/such/file"}, "/no/such/file"},
      {{"--batch_size=1000"}, "1000"},
      {{"--eval_dataset=five"}, "5"},
      {{"--resume=/no/such/file"}, "/no/such/file"},
      {{"--resume=" + garbage}, garbage},
      {{"--resume=auto", "--checkpoint=" + garbage}, garbage},
      {{"--input=nothing"}, "image"},
      {{"--repeat_batches=6"}, "none would be repeated"},
  };
  for (const auto& [flags, expected] : kMistakes) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 2) << flags[0];
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags[0];
  }
  for (const char* flag : {"--help", "-help", "--helpfull", "--version"}) {
    const ProgramResult help =
        RunProgram({ProgramPath("trainer/millrace-train"), flag});
    EXPECT_EQ(help.exit_code, 0) << flag;
    EXPECT_THAT(help.out, HasSubstr(std::string(flag) == "--version"
                                        ? "millrace-train"
                                        : "--checkpoint_every"))
        << flag;
    const ProgramResult lost =
        RunProgram({"/bin/sh", "-c", "\"$0\" \"$1\" > /dev/full",
                    ProgramPath("trainer/millrace-train"), flag});
    EXPECT_EQ(lost.exit_code, 1) << flag;
    EXPECT_THAT(lost.err, HasSubstr("standard output")) << flag;
  }
  // Alone with a number, and behind a name with its value, a dash is none.
  EXPECT_THAT(Run({"--lr", "-1"}).err, HasSubstr("--lr is -1"));
}

TEST_F(Train, AnswersMistakesWithASentence) {
  const std::pair<std::vector<std::string>, std::string> kMistakes[] = {
      {{"--endpoint=127.0.0.1:1"}, "127.0.0.1:1"},
      {{"--json=/no/such/folder/x.json"}, "/no/such/folder/x.json"},
      {{"--lr=1e30", "--optimizer=sgd"}, "the loss is"},
  };
  for (const auto& [flags, expected] : kMistakes) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 1) << flags[0];
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags[0];
  }
  EXPECT_EQ(Run({"--max_steps=1"}).exit_code, 0) << "the server goes on";
}

TEST_F(Train, NamesTheRankThatFailed) {
  const ProgramResult run = Run({"--nproc=2", "--lr=1e30", "--optimizer=sgd"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("of 2 (process"), HasSubstr("the loss is")));
}

}  // namespace
}  // namespace millrace::testing
