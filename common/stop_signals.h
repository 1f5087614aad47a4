// StopSignals turns SIGINT and SIGTERM into a request to stop. The program
// polls signal(), waits in Await(), or registers a callback with OnSignal(). A
// second signal ends the process at once, with exit code 128 + its number.
// Terminals, launchers and `timeout` often send one request twice: a signal
// within Options::same_request belongs to the first.
//
// Create it before any other thread: later threads inherit the blocked signals.
// One at a time in a process. Owns one thread. After a signal the destructor
// leaves the signals blocked, so that a late second copy does not kill the
// ending program before its output is written.
//
//   StopSignals signals;
//   signals.OnSignal([&] { loader->Close(); });
//   ...
//   if (signals.signal() != 0) puts("interrupted");

#ifndef MILLRACE_COMMON_STOP_SIGNALS_H_
#define MILLRACE_COMMON_STOP_SIGNALS_H_

#include <signal.h>

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace millrace {

class StopSignals {
 public:
  struct Options {
    // Time after the callback of OnSignal() ends in which a further signal
    // counts as the same request. 0: every further signal is a second signal.
    absl::Duration same_request = absl::Seconds(1);
    // False: until Hold() is called, the first signal ends the process as well.
    // A program that hangs while it opens its data can then be stopped.
    bool hold = true;
  };

  StopSignals() : StopSignals(Options()) {}
  explicit StopSignals(Options options);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The first signal of the process; 0: none yet. Callable without an object,
  // from any thread and from a child of fork().
  static int signal();

  void Hold();

  // Blocks until the first signal; its number.
  int Await();

  // Called once, on the thread of this object, when a signal comes; at once
  // when it has come. Null: nothing is called. When this returns, no earlier
  // callback runs.
  void OnSignal(std::function<void()> callback);

  // The signal mask of this process before: for programs that it starts.
  const sigset_t& mask_before() const { return before_; }

 private:
  void Listen();

  const Options options_;
  sigset_t before_;
  Mutex mu_;
  CondVar changed_;
  bool closing_ MR_GUARDED_BY(mu_) = false;
  bool held_ MR_GUARDED_BY(mu_);
  std::function<void()> callback_ MR_GUARDED_BY(mu_);
  std::thread listener_;  // last: uses all of the above
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_STOP_SIGNALS_H_
