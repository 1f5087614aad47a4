// Interrupt lets a command end well on Ctrl-C and SIGTERM: the first one calls
// what was given to it, so that the command can stop and print what it has; the
// second ends the program with 130 at once. `timeout -s INT` signals a program
// and then its process group, so that one request to stop arrives twice: what
// comes within kSameRequest after the first signal, or while the call for it
// runs, belongs to the first.
//
// After a signal the destructor leaves the signals blocked: the command is
// over, and a late copy must not take its output away.
//
// Made before any other thread: those that start later do not get the signals.
// One at a time. Owns the thread that waits for them.
//
//   Interrupt interrupt;
//   interrupt.OnSignal([&] { loader->Close(); });
//   ...
//   if (interrupt.happened()) puts("interrupted");

#ifndef MILLRACE_CLIENT_CLI_INTERRUPT_H_
#define MILLRACE_CLIENT_CLI_INTERRUPT_H_

#include <signal.h>

#include <atomic>
#include <functional>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/thread.h"

namespace millrace {

class Interrupt {
 public:
  static constexpr absl::Duration kSameRequest = absl::Seconds(1);

  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Called once per signal on a thread of its own; at once when there was one.
  // Null: nothing. Returns when a call that is under way has ended.
  void OnSignal(std::function<void()> action);

  bool happened() const { return happened_; }

  // For processes that are started meanwhile.
  const sigset_t& mask_before() const { return before_; }

 private:
  void Wait();

  sigset_t before_;
  std::atomic<bool> happened_{false};
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::function<void()> action_ MR_GUARDED_BY(mu_);
  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_INTERRUPT_H_
