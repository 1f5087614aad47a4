// StopSignals turns SIGTERM and SIGINT into something to wait for. Until Hold()
// is called a signal ends the process at once: a server that hangs while it
// opens its data can be stopped. After it the first one is kept for Await(), a
// second one ends the process.
//
// Create it before any other thread, so that none of them takes a signal. Owns
// one thread.
//
//   StopSignals signals;
//   ... start ...
//   signals.Hold();
//   const int number = signals.Await();
//   ... stop gracefully ...

#ifndef MILLRACE_SERVER_STOP_SIGNALS_H_
#define MILLRACE_SERVER_STOP_SIGNALS_H_

#include <signal.h>

#include <thread>

#include "common/mutex.h"

namespace millrace {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void Hold();

  // Waits for the signal that is kept; its number.
  int Await();

 private:
  void Listen();

  sigset_t signals_;
  Mutex mu_;
  CondVar changed_;
  bool closing_ MR_GUARDED_BY(mu_) = false;
  bool held_ MR_GUARDED_BY(mu_) = false;
  int number_ MR_GUARDED_BY(mu_) = 0;
  std::thread listener_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STOP_SIGNALS_H_
