#include "trainer/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/time/time.h"
#include "common/usage_error.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Launcher : public ::testing::Test {
 protected:
  absl::Status Run(const std::string& script, uint32_t ranks = 3) {
    LaunchOptions options;
    options.command = {"/bin/sh", "-c", "cd " + folder_ + "; " + script};
    options.ranks = ranks;
    options.threads_per_rank = 5;
    return RunRanks(options);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string folder_ = [] {
    std::string name = ::testing::TempDir() + "/launcher.XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
};

TEST_F(Launcher, TellsEachRankWhichItIs) {
  ASSERT_TRUE(
      Run("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR "
          "$OMP_NUM_THREADS ${MILLRACE_MASTER_FD:-none} > $RANK")
          .ok());
  EXPECT_THAT(Read("0"), HasSubstr("0 3 0 3 127.0.0.1 5 "));
  EXPECT_THAT(Read("0"), testing::Not(HasSubstr("none")));
  EXPECT_EQ(Read("1"), "1 3 1 3 127.0.0.1 5 none\n");
  EXPECT_EQ(Read("2"), "2 3 2 3 127.0.0.1 5 none\n");
}

TEST_F(Launcher, HandsOnlyRankZeroTheListeningSocket) {
  ASSERT_TRUE(Run("readlink /proc/$$/fd/${MILLRACE_MASTER_FD:-9999} > $RANK; "
                  "true")
                  .ok());
  EXPECT_THAT(Read("0"), HasSubstr("socket:"));
  EXPECT_EQ(Read("1"), "");
}

TEST_F(Launcher, EndsTheOthersWhenOneFailsAndNamesIt) {
  // The others would wait for ever; `trap` shows that they were asked to end.
  const absl::Status status =
      Run("mkfifo never.$RANK; trap 'echo asked > ended.$RANK; exit 0' TERM; "
          "echo > ready.$RANK; "
          "if [ $RANK = 1 ]; then "
          "  while ! [ -e ready.0 -a -e ready.2 ]; do :; done; exit 7; fi; "
          "exec 3<>never.$RANK; read x <&3");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 of 3"), HasSubstr("exit code 7")));
  EXPECT_EQ(Read("ended.0"), "asked\n");
  EXPECT_EQ(Read("ended.2"), "asked\n");
}

// Else a supervisor would start a run with a wrong flag again and again.
TEST_F(Launcher, PassesOnThatARankWasStartedWithAMistake) {
  EXPECT_TRUE(IsUsageError(Run("exit 2")));
  EXPECT_FALSE(IsUsageError(Run("exit 1")));
  // Rank 0 ends first, by the rank that it misses.
  const absl::Status status =
      Run("if [ $RANK = 0 ]; then "
          "  while ! [ -e ready ]; do :; done; echo > ended; exit 1; fi; "
          "trap '' TERM; echo > ready; "
          "while ! [ -e ended ]; do :; done; exit 2",
          2);
  EXPECT_TRUE(IsUsageError(status));
  // It said: rank 0, exit code 1.
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 of 2"), HasSubstr("exit code 2")));
}

TEST_F(Launcher, NamesTheSignalThatKilledARank) {
  const absl::Status status =
      Run("if [ $RANK = 0 ]; then kill -KILL $$; fi", 1);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 0 of 1"), HasSubstr("signal 9")));
}

// It said: rank 0, exit code 1, although rank 1 had been silent.
TEST_F(Launcher, NamesARankThatASignalHadPaused) {
  LaunchOptions options;
  options.command = {
      "/bin/sh", "-c",
      "cd " + folder_ +
          "; if [ $RANK = 1 ]; then echo $$ > tmp; mv tmp pid; "
          "  kill -STOP $$; fi; "
          "while ! [ -e pid ]; do :; done; "
          "while ! grep -q '^State:.T' /proc/$(cat pid)/status; do :; done; "
          "exit 1"};
  options.ranks = 2;
  options.grace = absl::ZeroDuration();
  EXPECT_THAT(std::string(RunRanks(options).message()),
              AllOf(HasSubstr("rank 1 of 2"), HasSubstr("paused by signal 19"),
                    HasSubstr("then rank 0 "), HasSubstr("exit code 1")));
}

TEST_F(Launcher, PassesASignalOn) {
  // The first rank sends its launcher what a person's Ctrl-C would.
  const absl::Status status =
      Run("mkfifo never; trap 'echo asked > ended; exit 0' TERM; "
          "kill -INT $PPID; exec 3<>never; read x <&3",
          1);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(Read("ended"), "asked\n");
}

// Else Ctrl-C would reach a rank from the terminal and from the launcher.
TEST_F(Launcher, GivesEachRankAProcessGroupOfItsOwn) {
  ASSERT_TRUE(Run("read pid name state parent group rest < /proc/$$/stat; "
                  "[ $group = $$ ] && echo own > $RANK; true")
                  .ok());
  for (const char* rank : {"0", "1", "2"}) EXPECT_EQ(Read(rank), "own\n");
}

TEST_F(Launcher, TellsRanksOfSeveralMachinesWhereTheyMeet) {
  LaunchOptions options;
  options.command = {"/bin/sh", "-c",
                     "cd " + folder_ +
                         "; echo $RANK $WORLD_SIZE $LOCAL_RANK "
                         "$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT "
                         "${MILLRACE_MASTER_FD:-none} > $RANK; "
                         "while ! [ -s 2 ]; do :; done; exit $LOCAL_RANK"};
  options.ranks = 2;
  options.nodes = 3;
  options.node_rank = 1;
  options.master_address = "10.0.0.7";
  options.master_port = 4711;
  const absl::Status status = RunRanks(options);
  EXPECT_EQ(Read("2"), "2 6 0 2 10.0.0.7 4711 none\n");
  EXPECT_EQ(Read("3"), "3 6 1 2 10.0.0.7 4711 none\n");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 3 of 6"), HasSubstr("exit code 1")));
  options.node_rank = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(RunRanks(options)));
  options.node_rank = 0;
  options.master_address = "";
  EXPECT_TRUE(absl::IsInvalidArgument(RunRanks(options)));
}

TEST_F(Launcher, SaysThatAProgramDoesNotStart) {
  LaunchOptions options;
  options.command = {folder_ + "/missing"};
  EXPECT_THAT(std::string(RunRanks(options).message()),
              HasSubstr("exit code 127"));
}

}  // namespace
}  // namespace millrace::trainer
