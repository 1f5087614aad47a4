// What a signal does to a process: a child that signals itself, or one that is
// signalled from outside, as by a terminal.

#include "common/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace millrace {
namespace {

// The exit code of a process that runs `body`.
int ExitCodeOf(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // A mistake must not hang.
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void SendMyself(int number) { kill(getpid(), number); }

TEST(StopSignalsTest, TheFirstSignalIsKept) {
  for (const int number : {SIGINT, SIGTERM}) {
    EXPECT_EQ(ExitCodeOf([number] {
                StopSignals signals;
                if (StopSignals::signal() != 0) return 1;
                SendMyself(number);
                if (signals.Await() != number) return 2;
                return StopSignals::signal() == number ? 0 : 3;
              }),
              0);
  }
}

TEST(StopSignalsTest, CallsBackOnce) {
  EXPECT_EQ(ExitCodeOf([] {
              StopSignals signals;
              int calls = 0;
              signals.OnSignal([&calls] { ++calls; });
              SendMyself(SIGINT);
              signals.Await();
              signals.OnSignal(nullptr);
              if (calls != 1) return 1;
              signals.OnSignal([&calls] { ++calls; });  // it has come
              return calls == 2 ? 0 : 2;
            }),
            0);
}

// `timeout -s INT` signals a program and then its process group: a command
// ended before it printed what it had.
TEST(StopSignalsTest, ASecondSignalOfTheSameRequestIsIgnored) {
  EXPECT_EQ(ExitCodeOf([] {
              {
                StopSignals signals({.same_request = absl::Hours(1)});
                signals.OnSignal([] { SendMyself(SIGINT); });
                SendMyself(SIGTERM);
                signals.Await();
                SendMyself(SIGINT);
              }
              SendMyself(SIGINT);  // later than the object
              return StopSignals::signal() == SIGTERM ? 0 : 1;
            }),
            0);
}

TEST(StopSignalsTest, ASecondRequestEndsTheProcess) {
  EXPECT_EQ(ExitCodeOf([] {
              StopSignals signals({.same_request = absl::ZeroDuration()});
              SendMyself(SIGTERM);
              signals.Await();
              SendMyself(SIGINT);
              while (true) pause();
              return 0;
            }),
            128 + SIGINT);
}

TEST(StopSignalsTest, ASignalBeforeHoldEndsTheProcess) {
  EXPECT_EQ(ExitCodeOf([] {
              StopSignals signals({.hold = false});
              SendMyself(SIGTERM);
              while (true) pause();
              return 0;
            }),
            128 + SIGTERM);
  EXPECT_EQ(ExitCodeOf([] {
              StopSignals signals({.hold = false});
              signals.Hold();
              SendMyself(SIGTERM);
              return signals.Await() == SIGTERM ? 0 : 1;
            }),
            0);
}

TEST(StopSignalsTest, GivesTheSignalsBackWhereNoneCame) {
  EXPECT_EQ(ExitCodeOf([] {
              { StopSignals signals; }
              SendMyself(SIGTERM);
              while (true) pause();
              return 0;
            }),
            1000 + SIGTERM);
}

// A child of fork() has no thread of its parent.
TEST(StopSignalsTest, AChildMakesItsOwn) {
  EXPECT_EQ(ExitCodeOf([] {
              StopSignals parents;
              return ExitCodeOf([] {
                StopSignals signals;
                SendMyself(SIGINT);
                return signals.Await() == SIGINT ? 0 : 1;
              });
            }),
            0);
}

constexpr int kToldToEnd = 7;

// A program that says 'r' when it is ready, 's' when a signal came, and ends
// with kToldToEnd when it is told to.
class SignalledProgramTest : public ::testing::Test {
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
      StopSignals signals;
      signals.OnSignal([this] { Say('s'); });
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
TEST_F(SignalledProgramTest, ASignalThatComesTwiceAtOnceIsOne) {
  kill(child_, SIGINT);
  ASSERT_EQ(Hear(), 's');
  kill(child_, SIGINT);
  AwaitTaken();
  ASSERT_EQ(write(told_[1], "q", 1), 1);
  // Also one that comes after the last command.
  kill(child_, SIGINT);
  EXPECT_EQ(ExitCode(), kToldToEnd);
}

TEST_F(SignalledProgramTest, ALaterSignalEndsTheProgram) {
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child_), &ended,
                WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    kill(child_, SIGINT);
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_EQ(ExitCode(), 128 + SIGINT);
}

}  // namespace
}  // namespace millrace
