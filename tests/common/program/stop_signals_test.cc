// What a signal does is seen from outside: each process is a child that signals
// itself.

#include "common/program/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

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

}  // namespace
}  // namespace millrace
