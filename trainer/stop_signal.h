// StopSignal turns SIGINT and SIGTERM into a call: a training loop then ends
// at the next step boundary and writes its checkpoint.
//
// Make it first thing in main: threads that exist already would still get the
// signals. Owns one thread. A second signal ends the process at once, unless it
// comes within a second of the first: launchers and terminals often send the
// same wish twice.

#ifndef MILLRACE_TRAINER_STOP_SIGNAL_H_
#define MILLRACE_TRAINER_STOP_SIGNAL_H_

#include <atomic>
#include <functional>
#include <thread>

#include "common/mutex.h"

namespace millrace {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that came; 0: none yet.
  int signal() const { return signal_; }

  // Called once, on the thread of this object, when a signal comes; at once
  // when it has come. An empty function ends it: when this returns, none runs.
  void OnSignal(std::function<void()> callback);

 private:
  void Run();

  std::atomic<int> signal_{0};
  std::atomic<bool> ended_{false};
  Mutex mu_;
  std::function<void()> callback_ MR_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_STOP_SIGNAL_H_
