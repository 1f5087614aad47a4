// What the trainer does when something is wrong: ranks that die, batches and
// weights that are no numbers, disks that are full, runs that are killed.
// Weights themselves are looked at in train_test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/train_world.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

TEST_F(Train, EndsTheOtherRanksByTheNameOfTheOneThatDied) {
  const std::string checkpoint = Path("died.ckpt");
  TwoRanks ranks({"--epochs=100000", "--checkpoint=" + checkpoint});
  WaitForOutput(ranks.zero, "epoch 2/");
  ranks.one.Signal(SIGKILL);
  EXPECT_EQ(ranks.zero.Wait(), 1);
  EXPECT_THAT(ranks.zero.Stderr(),
              HasSubstr(absl::StrCat("rank 1 of 2 on host ", HostName(),
                                     " is gone: its connection closed")));
  // Rank 0 kept what it had.
  ExpectResumes(checkpoint);
}

TEST_F(Train, RanksThatStartFromDifferentCheckpointsAreRefused) {
  const std::string early = Path("early.ckpt");
  const std::string late = Path("late.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + early}).exit_code, 0);
  ASSERT_EQ(Run({"--max_steps=3", "--checkpoint=" + late}).exit_code, 0);
  TwoRanks ranks({"--resume=" + early}, {"--resume=" + late});
  EXPECT_EQ(ranks.zero.Wait(), 1);
  EXPECT_EQ(ranks.one.Wait(), 1);
  EXPECT_THAT(ranks.zero.Stderr(),
              AllOf(HasSubstr("at the start: rank 1 of 2 differs from rank 0, "
                              "first in the next step"),
                    HasSubstr("--resume")));
}

TEST_F(Train, KeepsTheBatchWhoseLossIsNoNumber) {
  const ProgramResult run =
      Run({"--lr=1e30", "--optimizer=sgd", "--nproc=2",
           "--failed_batch=" + Path("bad"), "--json=" + Path("nan.json")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(ReadFile(Path("nan.json")),
              AllOf(HasSubstr("\"ended\": \"failed\""),
                    HasSubstr("\"error\": \"the loss is ")));
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("the loss is "), HasSubstr("at epoch 1, step "),
                    HasSubstr("(all of its numbers are finite)")));
  // The command of the message gets the same batch.
  std::smatch match;
  const std::regex pattern(
      "millrace (replay --run=([^ ]*) [^\n]*--output=[^ \n]*)");
  ASSERT_TRUE(std::regex_search(run.err, match, pattern)) << run.err;
  std::vector<std::string> command = {ProgramPath("client/cli/millrace")};
  std::istringstream words(match[1]);
  for (std::string word; words >> word;) command.push_back(word);
  const std::string json = match[2];
  const std::string kept = json.substr(0, json.rfind('/'));
  const ProgramResult replay = RunProgram(command);
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  for (const char* file : {"image.npy", "label.npy", "sample_index.npy"}) {
    const std::string bytes = ReadFile(kept + "/" + file);
    EXPECT_GT(bytes.size(), 64u) << file;
    EXPECT_EQ(bytes, ReadFile(kept + ".replay/" + file)) << file;
  }
  EXPECT_THAT(ReadFile(json), HasSubstr("\"plan_hash\": \""));

  // The message's command is one for the shell, whatever the path.
  const ProgramResult spaced = Run(
      {"--lr=1e30", "--optimizer=sgd", "--failed_batch=" + Path("it's $bad")});
  ASSERT_TRUE(std::regex_search(spaced.err, match,
                                std::regex("millrace (replay --run=[^\n]*)")))
      << spaced.err;
  const ProgramResult shell =
      RunProgram({"/bin/sh", "-c",
                  absl::StrCat(ProgramPath("client/cli/millrace"), " ",
                               std::string(match[1]))});
  EXPECT_EQ(shell.exit_code, 0) << spaced.err << shell.err;

  // Beside the checkpoint when nothing else is said; without both the message
  // tells how to see the batch.
  const std::string checkpoint = Path("nan.ckpt");
  EXPECT_THAT(
      Run({"--lr=1e30", "--optimizer=sgd", "--checkpoint=" + checkpoint}).err,
      HasSubstr("its batch is in " + checkpoint + ".failed_batch/"));
  EXPECT_THAT(
      Run({"--lr=1e30", "--optimizer=sgd"}).err,
      AllOf(HasSubstr("its batch is not saved (--failed_batch is not given)"),
            HasSubstr("millrace replay --position=0:")));
}

// A folder of that name may hold files of the user, or links to datasets: they
// were overwritten. At a FIFO the trainer waited until a second SIGTERM.
TEST_F(Train, KeepsTheFailedBatchBesideFilesOfItsName) {
  const std::string bad = Path("bad");
  const std::vector<std::string> flags = {"--lr=1e30", "--optimizer=sgd",
                                          "--failed_batch=" + bad};
  const auto place_of = [&flags](std::string* place) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("the loss is "));
    std::smatch match;
    ASSERT_TRUE(std::regex_search(run.err, match,
                                  std::regex("its batch is in ([^ ]*) ")))
        << run.err;
    *place = match[1];
  };
  std::string first, second, third;
  place_of(&first);
  const std::string image = first + "/image.npy";
  const std::string bytes = ReadFile(image);
  EXPECT_GT(bytes.size(), 64u);
  // The batch of the same step is there already.
  place_of(&second);
  EXPECT_EQ(second, first);
  WriteFile(Path("data"), "PAR1");
  ASSERT_EQ(unlink(image.c_str()), 0);
  ASSERT_EQ(symlink(Path("data").c_str(), image.c_str()), 0);
  place_of(&second);
  EXPECT_EQ(second, first + "-2");
  EXPECT_EQ(ReadFile(Path("data")), "PAR1");
  EXPECT_EQ(ReadFile(second + "/image.npy"), bytes);
  for (const std::string& place : {first, second}) {
    ASSERT_EQ(unlink((place + "/batch.json").c_str()), 0);
    ASSERT_EQ(mkfifo((place + "/batch.json").c_str(), 0600), 0);
  }
  place_of(&third);
  EXPECT_EQ(third, first + "-3");
}

// The summary of an earlier run is removed at the start. An empty file, which a
// script had made with mktemp, went with it.
TEST_F(Train, LeavesAnEmptySummaryWhenItFailsBeforeTheFirstStep) {
  for (const std::string old : {"", "{\"ended\": \"done\"}\n"}) {
    WriteFile(Path("run.json"), old);
    EXPECT_EQ(Run({"--dataset=none", "--json=" + Path("run.json")}).exit_code,
              2);
    EXPECT_EQ(access(Path("run.json").c_str(), F_OK) == 0, old.empty()) << old;
  }
}

// No --resume, and the first step fails already: what was learnt before is
// worth more than fresh weights.
TEST_F(Train, LeavesAnOlderCheckpointWhenItHasLearntNothing) {
  const std::string checkpoint = Path("old.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + checkpoint}).exit_code, 0);
  const std::string good = ReadFile(checkpoint);
  // Squares of such numbers are infinite.
  WriteFile(Path("huge.textproto"),
            "sources { dataset: 'train' } "
            "transforms { normalize { mean: 0 stddev: 2e-38 } }");
  const ProgramResult run =
      Run({"--pipeline=" + Path("huge.textproto"), "--loss=mse",
           "--input=image", "--target=image", "--checkpoint=" + checkpoint});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("at epoch 1, step 1 (rank"));
  EXPECT_TRUE(ReadFile(checkpoint) == good);
}

// The ninth step changes one weight and fails at the other: what the model has
// then is neither the eighth step's nor the ninth's.
TEST_F(Train, KeepsTheCheckpointBeforeAStepThatFailedInTheMiddle) {
  const std::string checkpoint = Path("torn.ckpt");
  const std::vector<std::string> flags = {
      "--model=torchscript:tests/testdata/trainer/models/torn.pt",
      "--optimizer=sgd", "--weight_decay=0.1", "--epochs=2"};
  std::vector<std::string> six = flags;
  six.insert(six.end(), {"--max_steps=6", "--checkpoint=" + Path("six.ckpt")});
  ASSERT_EQ(Run(six).exit_code, 0);
  std::vector<std::string> all = flags;
  all.insert(all.end(), {"--checkpoint=" + checkpoint,
                         "--step_losses=" + Path("torn.losses")});
  const ProgramResult run = Run(all);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("training at epoch 2, step 3"),
                    HasSubstr("the step at epoch 2, step 3 failed while it "
                              "changed the weights"),
                    HasSubstr("no checkpoint of them is written")));
  EXPECT_TRUE(ReadFile(checkpoint) == ReadFile(Path("six.ckpt")));
  // The steps that were taken.
  EXPECT_EQ(Losses("torn.losses").size(), 8u);
}

TEST_F(Train, WritesLossesAsItGoesAndGoesOnWithThemAfterBeingKilled) {
  for (const size_t world : {1, 2}) {
    const auto environments = TorchrunEnvironments();
    const auto start = [&](const std::string& name) {
      std::vector<std::unique_ptr<Subprocess>> ranks;
      for (size_t rank = 0; rank < world; ++rank) {
        ranks.push_back(std::make_unique<Subprocess>(
            Command({"--epochs=40", "--checkpoint_every=4", "--resume=auto",
                     "--checkpoint=" + Path(name + ".ckpt"),
                     "--step_losses=" + Path(name)}),
            world == 1 ? std::vector<std::string>() : environments[rank]));
      }
      return ranks;
    };
    const std::string whole = absl::StrCat("whole", world);
    const std::string killed = absl::StrCat("killed", world);
    for (auto& rank : start(whole)) EXPECT_EQ(rank->Wait(), 0);
    EXPECT_EQ(Losses(whole).size(), 240u);
    {
      const auto ranks = start(killed);
      WaitForOutput(*ranks[0], "checkpoint before epoch 9, step 5");
      EXPECT_GE(Losses(killed).size(), 52u) << "those before the checkpoint";
      ranks[0]->Signal(SIGKILL);
      EXPECT_EQ(ranks[0]->Wait(), 128 + SIGKILL) << "it was over before";
      if (world > 1) ranks[1]->Wait();
    }
    for (auto& rank : start(killed)) EXPECT_EQ(rank->Wait(), 0);
    EXPECT_EQ(ReadFile(Path(killed)), ReadFile(Path(whole)));
  }
}

// Rank 0 alone knows of the file; a stop comes in the middle of an epoch.
TEST_F(Train, HasTheLossesOfAllStepsWhenRanksAreStopped) {
  TwoRanks ranks({"--epochs=100000", "--step_losses=" + Path("stopped"),
                  "--checkpoint=" + Path("stopped.ckpt")},
                 {"--epochs=100000"});
  WaitForOutput(ranks.zero, "epoch 3/");
  ranks.one.Signal(SIGTERM);
  EXPECT_EQ(ranks.zero.Wait(), 1);
  EXPECT_EQ(ranks.one.Wait(), 1);
  // The place of the checkpoint says how many steps of 6 an epoch there were.
  std::smatch match;
  const std::string out = ranks.zero.Stdout();
  const size_t last = out.rfind("checkpoint before epoch ");
  ASSERT_NE(last, std::string::npos) << out;
  const std::string line = out.substr(last);
  ASSERT_TRUE(std::regex_search(line, match,
                                std::regex("epoch ([0-9]+), step ([0-9]+)")));
  EXPECT_EQ(Losses("stopped").size(),
            6 * (std::stoul(match[1]) - 1) + std::stoul(match[2]) - 1);
}

// The folder of the link is another disk, perhaps; the killed process had not
// finished writing.
TEST_F(Train, FollowsALinkAndRemovesWhatAKilledRunLeft) {
  ASSERT_EQ(mkdir(Path("disk").c_str(), 0755), 0);
  ASSERT_EQ(symlink("disk/real.ckpt", Path("link.ckpt").c_str()), 0);
  const std::string checkpoint = "--checkpoint=" + Path("link.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", checkpoint}).exit_code, 0);
  Subprocess ended({"/bin/true"});
  const std::string leftover =
      absl::StrCat(Path("disk/real.ckpt.tmp."), ended.pid());
  ended.Wait();
  WriteFile(leftover, "half");
  const ProgramResult run = Run({"--max_steps=1", "--resume=auto", checkpoint,
                                 "--audit_dir=" + Path("made/by/the/run")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("removed " + leftover));
  EXPECT_NE(access(leftover.c_str(), F_OK), 0);
  struct stat info;
  ASSERT_EQ(lstat(Path("link.ckpt").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_GT(ReadFile(Path("made/by/the/run/rank-00000.mraudit")).size(), 0u);
}

// The trainer holds signals back, and waited for a writer for ever.
TEST_F(Train, ASignalEndsTheWaitForAPipelineFromAPipe) {
  const std::string pipe = Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Subprocess run(Command({"--pipeline=" + pipe}));
  while (run.Running() && run.Stderr().find("waiting for bytes of " + pipe) ==
                              std::string::npos) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(), HasSubstr("stopped by signal 15"));
}

// Nobody read the pipe, and the run said so at its end.
TEST_F(Train, ASummaryForAPipeNeedsItsReaderAtTheStart) {
  const std::string pipe = Path("summary");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const ProgramResult refused = Run({"--max_steps=2", "--json=" + pipe});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr(pipe), HasSubstr("no program reads the pipe"),
                    Not(HasSubstr("epoch 1"))));
  // It is open from the start, so the reader's end is that of the summary.
  Subprocess reader({"/bin/cat", pipe});
  ProgramResult run;
  for (int i = 0; i < 50 && run.exit_code != 0; ++i) {
    absl::SleepFor(absl::Milliseconds(100));  // until the reader has come
    run = Run({"--max_steps=2", "--json=" + pipe});
  }
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(reader.Wait(), 0);
  EXPECT_THAT(reader.Stdout(), HasSubstr("\"ended\": \"finished\""));
}

// An empty folder of logs looked like a job without a step.
TEST_F(Train, ARefusedRunMakesNoFolderOfLogs) {
  const std::string checkpoint = Path("mlp.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + checkpoint}).exit_code, 0);
  for (const char* refused :
       {"--dataset=none", "--preset=none", "--model=cnn"}) {
    const ProgramResult run =
        Run({"--audit_dir=" + Path("none"), refused, "--resume=" + checkpoint});
    EXPECT_NE(run.exit_code, 0) << refused;
    EXPECT_NE(access(Path("none").c_str(), F_OK), 0) << refused;
  }
}

// As on a disk that is full. The weights and Adam's state take 1.3 MB.
TEST_F(Train, KeepsTheOldCheckpointWhenTheDiskIsFull) {
  const std::string checkpoint = Path("full.ckpt");
  ASSERT_EQ(Run({"--max_steps=2", "--checkpoint=" + checkpoint}).exit_code, 0);
  const std::string good = ReadFile(checkpoint);
  std::vector<std::string> limited = {"/bin/sh", "-c",
                                      "ulimit -f 1000; exec \"$@\"", "sh"};
  for (const std::string& word :
       Command({"--resume=" + checkpoint, "--checkpoint=" + checkpoint,
                "--json=" + Path("full.json")})) {
    limited.push_back(word);
  }
  const ProgramResult run = RunProgram(limited);
  EXPECT_EQ(run.exit_code, 1);
  // It said "finished".
  EXPECT_THAT(
      ReadFile(Path("full.json")),
      AllOf(HasSubstr("\"ended\": \"failed\""), HasSubstr("File too large")));
  EXPECT_THAT(run.err, AllOf(HasSubstr("cannot write " + checkpoint),
                             HasSubstr("File too large")));
  EXPECT_EQ(ReadFile(checkpoint), good);
  EXPECT_EQ(RunProgram({"/bin/sh", "-c", "ls " + folder_ + " | grep tmp"}).out,
            "")
      << "half a file is left";
  ExpectResumes(checkpoint);
}

// A script read the summary of the run before: "finished".
TEST_F(Train, AStartThatFailsLeavesNoOlderSummary) {
  const std::string json = "--json=" + Path("stale.json");
  ASSERT_EQ(Run({"--max_steps=1", json}).exit_code, 0);
  EXPECT_THAT(ReadFile(Path("stale.json")), HasSubstr("finished"));
  EXPECT_EQ(Run({"--max_steps=1", json, "--dataset=nothing"}).exit_code, 2);
  EXPECT_NE(access(Path("stale.json").c_str(), F_OK), 0);
}

// A dataset that was being served became 30 bytes of losses, with exit code 0.
TEST_F(Train, ReplacesNoFileOfAnotherKind) {
  const std::string dataset =
      std::string(16, '\0') + "\xde\xc0\xef\xbe" + std::string(4076, '\0');
  WriteFile(Path("photos.lmdb"), dataset);
  for (const char* flag : {"--json=", "--step_losses=", "--checkpoint="}) {
    const ProgramResult run =
        Run({"--max_steps=1", flag + Path("photos.lmdb")});
    EXPECT_EQ(run.exit_code, 2) << flag;
    EXPECT_THAT(run.err, AllOf(HasSubstr(flag + Path("photos.lmdb")),
                               HasSubstr("appears to be an LMDB database")));
    EXPECT_EQ(ReadFile(Path("photos.lmdb")), dataset) << flag;
  }
  // The same names again and again are those of one job.
  for (int start = 0; start < 2; ++start) {
    const ProgramResult run =
        Run({"--max_steps=2", "--epochs=9", "--json=" + Path("own.json"),
             "--step_losses=" + Path("own.losses"), "--resume=auto",
             "--checkpoint=" + Path("own.ckpt"),
             "--save_weights=" + Path("own.pt")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
  for (int start = 0; start < 2; ++start) {
    const ProgramResult run =
        Run({"--max_steps=1", "--save_weights=" + Path("own.safetensors")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
}

// The loader goes on without its log; the run is not taken for one that can be
// audited.
TEST_F(Train, FailsWhenTheAuditLogHasNoRoom) {
  std::vector<std::string> limited = {"/bin/sh", "-c",
                                      "ulimit -f 8; exec \"$@\"", "sh"};
  for (const std::string& word :
       Command({"--epochs=5", "--batch_size=2", "--log_every=0",
                "--audit_dir=" + Path("full")})) {
    limited.push_back(word);
  }
  const ProgramResult run = RunProgram(limited);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("epoch 5/5"));
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("cannot write to the audit log"),
                    HasSubstr("millrace-train: the audit log " +
                              Path("full/rank-00000.mraudit") + " has "),
                    HasSubstr("of the 500 batches that this rank received")));
}

// A job that is started again and again with the same command, as torchrun and
// Kubernetes do, and killed at any moment.
TEST_F(Train, EndsWithTheSameCheckpointHoweverOftenItIsKilled) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (const size_t world : {1, 2}) {
    const auto environments = TorchrunEnvironments();
    // All ranks of a job; one of them alone needs no environment.
    auto run_ranks = [&](const std::string& checkpoint, bool kill_one,
                         const std::string& until) {
      std::vector<std::unique_ptr<Subprocess>> ranks;
      for (size_t rank = 0; rank < world; ++rank) {
        ranks.push_back(std::make_unique<Subprocess>(
            Command({"--epochs=12", "--checkpoint=" + checkpoint,
                     "--resume=auto", "--checkpoint_every=4",
                     // Its BatchNorm has statistics to go on with, too.
                     "--model=torchscript:tests/testdata/trainer/models/"
                     "small_cnn.pt"}),
            world == 1 ? std::vector<std::string>() : environments[rank]));
      }
      int killed = 0;
      if (kill_one) {
        WaitForOutput(*ranks[0], until);
        Subprocess& victim = *ranks[random() % world];
        victim.Signal(SIGKILL);
        killed = victim.Wait() == 128 + SIGKILL ? 1 : 0;
      }
      for (auto& rank : ranks) {
        const int code = rank->Wait();
        if (!kill_one) {
          EXPECT_EQ(code, 0) << rank->Stderr();
        }
      }
      return killed;
    };
    const std::string whole = Path(absl::StrCat("whole", world));
    const std::string often = Path(absl::StrCat("often", world));
    run_ranks(whole, false, "");
    int killed = 0;
    for (const int from : {2, 6}) {
      // Some time after this place.
      killed += run_ranks(often, true,
                          absl::StrCat("checkpoint before epoch ",
                                       from + random() % 4, ", step "));
    }
    EXPECT_EQ(killed, 2) << "the runs were over before";
    run_ranks(often, false, "");
    // Weights, the optimiser's state and the place in the data.
    EXPECT_GT(ReadFile(whole).size(), 4'000u);
    EXPECT_TRUE(ReadFile(whole) == ReadFile(often)) << world << " ranks";
  }
}

TEST_F(Train, CutsOneDatasetForTrainingAndEvaluation) {
  for (const char* ranks : {"1", "2"}) {
    const std::string logs = NewTempDir();
    const ProgramResult run =
        Run({"--eval_subset=150:200", "--epochs=3", "--last_batch=pad",
             absl::StrCat("--nproc=", ranks), "--audit_dir=" + logs,
             "--json=" + Path("cut.json")});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, AllOf(HasSubstr("150 samples, 5 steps"),
                               HasSubstr("evaluation on train[150:200]: "
                                         "accuracy "),
                               HasSubstr("(top-5 "), HasSubstr("50 samples")));
    const std::string json = ReadFile(Path("cut.json"));
    EXPECT_EQ(Number(json, "samples"), 3 * 150);
    EXPECT_GE(Number(json, "eval_top5"), Number(json, "eval_accuracy"));
    EXPECT_GT(Number(json, "eval_top5"), 0.5);
    EXPECT_THAT(json, HasSubstr("\"allreduce_share\": ["));
  }
  EXPECT_GT(Number(ReadFile(Path("cut.json")), "allreduce_bytes"), 1e6);
  EXPECT_THAT(Run({"--eval_subset=150:201"}).err,
              HasSubstr("ends after the 200 samples of train"));
}

TEST_F(Train, AnswersMistakesAboutRanksAndParts) {
  const std::pair<std::vector<std::string>, std::string> kUsage[] = {
      {{"--eval_subset=0.5"}, "--eval_subset=0.5: expected FROM:TO"},
      {{"--subset_unit=8"}, "--subset_unit has no effect without"},
      {{"--checkpoint_every=5"},
       "--checkpoint_every has no effect without --checkpoint"},
      {{"--resume=auto"}, "--resume is auto, which needs --checkpoint"},
      {{"--nnodes=2"}, "--nnodes has no effect without --nproc"},
      // Also when the value is the one that holds without the flag.
      {{"--master_port=29500"}, "--master_port has no effect without --nproc"},
      {{"--nproc=2", "--master_port=29500"},
       "--master_port has no effect without --master_addr"},
      {{"--stop_grace=20s"}, "--stop_grace has no effect without --nproc"},
      {{"--nproc=1", "--stop_grace=-1s"}, "--stop_grace=-1s: expected a time"},
      {{"--rank_timeout=2m"}, "--rank_timeout has no effect with one rank"},
      {{"--nproc=1", "--rank_timeout=2m"},
       "--rank_timeout has no effect with one rank"},
      {{"--nproc=2", "--nnodes=2"}, "--master_addr"},
      {{"--nproc=2", "--nnodes=2", "--node_rank=2"}, "--node_rank=2"},
      {{"--nproc=3", "--nnodes=2", "--master_addr=x"}, "multiple of 6"},
      {{"--nproc=2", "--nnodes=2", "--master_addr=x", "--master_port=70000"},
       "--master_port is 70000"},
  };
  for (const auto& [flags, expected] : kUsage) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 2) << flags[0];
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags[0];
  }
  // What the data servers have to be asked for, too: nothing mends it.
  const std::pair<std::vector<std::string>, std::string> kMistakes[] = {
      {{"--train_subset=0:100", "--eval_subset=50:200"}, "share samples"},
      {{"--train_subset=0:201"}, "ends after the 200 samples of train"},
      // Shapes, classes and types that do not fit.
      {{"--input=label"},
       "the input label is one number for each sample, but built-in models "
       "take samples of 1 to 3 dimensions; give --input=image"},
      {{"--input=sample_index"}, "give --input=image"},
      // The image is the target, and the label is all that is left.
      {{"--target=image", "--loss=mse"}, "give --input=image"},
      {{"--resume=" + folder_}, folder_ + ": it is a folder"},
      {{"--checkpoint=" + folder_}, folder_ + ": it is a folder"},
      {{"--target=sample_index"}, "give --classes=N"},
      {{"--target=image", "--input=image", "--loss=mse", "--classes=3"},
       "--classes=3 has no effect"},
      {{"--nproc=2", "--target=nothing"}, "outputs no tensor nothing"},
  };
  for (const auto& [flags, expected] : kMistakes) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, 2) << flags[0];
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags[0];
  }
  // --classes is the mistake, which only a batch shows.
  for (const char* loss : {"--loss=cross_entropy", "--loss=bce_with_logits"}) {
    const ProgramResult run =
        Run({"--target=sample_index", "--classes=5", loss});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err,
                AllOf(HasSubstr("training at epoch 1, step 1: the target "
                                "sample_index has the label "),
                      HasSubstr(", outside of its 5 classes, 0 to 4; give "
                                "--classes a number above the largest label")));
  }
  // The labels of training are right.
  const ProgramResult run =
      Run({"--dataset=five", "--target=sample_index", "--classes=50",
           "--eval_dataset=test", "--epochs=1"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("evaluating on test, step "),
                    HasSubstr(", outside of its 50 classes, 0 to 49; give "
                              "--classes a number above the largest label")));
}

TEST_F(Train, WarnsOfGroupsThatAreLargerThanAnEpoch) {
  const auto warning = [](const std::string& accumulate) {
    return Run({"--epochs=1", "--accumulate=" + accumulate}).err;
  };
  EXPECT_THAT(warning("50"),
              HasSubstr("--accumulate=50 is more than the 6 batches of an "
                        "epoch: an optimiser step combines batches of one "
                        "epoch only, so --accumulate=6 has the same effect"));
  EXPECT_THAT(warning("6"), Not(HasSubstr("--accumulate")));
}

// On any machine: there is no GPU to see, and no library for one.
TEST_F(Train, NamesTheFlagThatTrainsWithoutAGpu) {
  Subprocess run(Command({"--device=cuda", "--max_steps=1"}),
                 {"CUDA_VISIBLE_DEVICES=", "MILLRACE_TORCH_LIB=/none"});
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(),
              AllOf(HasSubstr("--device=cuda"), HasSubstr("--device=cpu")));
}

// A job that torchrun may give one rank or several has one command line.
TEST_F(Train, TakesFlagsOfRanksFromALauncherThatGivesOneRank) {
  Subprocess run(Command({"--rank_timeout=1m", "--max_steps=1"}),
                 {"RANK=0", "WORLD_SIZE=1"});
  EXPECT_EQ(run.Wait(), 0) << run.Stderr();
}

// Training's own pipeline says nothing of the evaluation's.
TEST_F(Train, NamesTheEvaluationsPipelineWhenItDoesNotFit) {
  WriteFile(Path("own.textproto"),
            "outputs { field: 'image' } outputs { field: 'label' name: 'y' }");
  const std::vector<std::string> flags = {"--pipeline=" + Path("own.textproto"),
                                          "--target=y", "--eval_subset=150:200",
                                          "--max_steps=1"};
  const ProgramResult run = Run(flags);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("evaluation by "), HasSubstr("dataset train"),
                    HasSubstr("outputs no tensor y"),
                    HasSubstr("--eval_preset=NAME or --eval_pipeline=FILE")));
  std::vector<std::string> both = flags;
  both.push_back("--eval_pipeline=" + Path("own.textproto"));
  EXPECT_EQ(Run(both).exit_code, 0);
}

}  // namespace
}  // namespace millrace::testing
