// What becomes of signals that come in a row, in a process of its own.

#include "client/cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace millrace {
namespace {

constexpr int kToldToEnd = 7;

// A program with an Interrupt: it says 'r' when it is ready, 's' when a signal
// came, and ends with kToldToEnd when it is told to.
class InterruptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(says_), 0);
    ASSERT_EQ(pipe(told_), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ > 0) {
      close(says_[1]);
      close(told_[0]);
      ASSERT_EQ(Hear(), 'r');
      return;
    }
    close(told_[1]);
    {
      Interrupt interrupt;
      interrupt.OnSignal([this] { Say('s'); });
      Say('r');
      char byte = 0;
      (void)!read(told_[0], &byte, 1);
    }
    _exit(kToldToEnd);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(says_[0]);
    close(told_[1]);
  }

  void Say(char byte) { (void)!write(says_[1], &byte, 1); }
  char Hear() {
    char byte = 0;
    return read(says_[0], &byte, 1) == 1 ? byte : 0;
  }

  // Until no SIGINT waits to be taken: SIGINT is bit 1 of the mask.
  void AwaitTaken() const {
    while (true) {
      std::ifstream status(absl::StrCat("/proc/", child_, "/status"));
      std::string line;
      uint64_t pending = 0;
      while (std::getline(status, line)) {
        if (!absl::StartsWith(line, "ShdPnd:")) continue;
        pending = std::stoull(line.substr(7), nullptr, 16);
      }
      if ((pending & 2) == 0) return;
    }
  }

  int ExitCode() {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int says_[2];
  int told_[2];
  pid_t child_ = -1;
};

// `timeout -s INT` sends the signal to the program and to its process group:
// the second one ended it without its report.
TEST_F(InterruptTest, ASignalThatComesTwiceAtOnceIsOne) {
  kill(child_, SIGINT);
  ASSERT_EQ(Hear(), 's');
  kill(child_, SIGINT);
  AwaitTaken();
  ASSERT_EQ(write(told_[1], "q", 1), 1);
  // Also one that comes after the last command.
  kill(child_, SIGINT);
  EXPECT_EQ(ExitCode(), kToldToEnd);
}

TEST_F(InterruptTest, ALaterSignalEndsTheProgram) {
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child_), &ended,
                WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    kill(child_, SIGINT);
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_EQ(ExitCode(), 130);
}

}  // namespace
}  // namespace millrace
