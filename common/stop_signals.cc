#include "common/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "common/logging.h"

namespace millrace {
namespace {

// Of the process, not of the object: code without access to the object, and a
// child of fork(), may read it. Written by the listener, under mu_, and by the
// constructor.
std::atomic<int> received{0};

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

StopSignals::StopSignals(Options options)
    : options_(options), held_(options.hold) {
  received = 0;
  const sigset_t signals = Signals();
  // Blocked before the listener and every other thread start, which inherit the
  // mask: a blocked signal of the process is left to sigwait(), so that no code
  // is interrupted by a handler.
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  listener_ = std::thread([this] { Listen(); });
}

StopSignals::~StopSignals() {
  {
    MutexLock lock(mu_);
    closing_ = true;
  }
  // A signal for the listener alone, which is in sigwait() or about to be.
  pthread_kill(listener_.native_handle(), SIGTERM);
  listener_.join();
  // After a signal the mask stays: the process ends soon, and a second signal
  // that is pending must not end it in the middle of its last writes.
  if (signal() == 0) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignals::signal() { return received; }

void StopSignals::Hold() {
  MutexLock lock(mu_);
  held_ = true;
}

int StopSignals::Await() {
  MutexLock lock(mu_);
  while (signal() == 0) changed_.Wait(lock);
  return signal();
}

void StopSignals::OnSignal(std::function<void()> callback) {
  MutexLock lock(mu_);
  callback_ = std::move(callback);
  // Under mu_, as in Listen(): a signal either finds the callback there or is
  // found here, so the callback runs exactly once. The lock also makes a caller
  // who replaces it wait for its end.
  if (callback_ != nullptr && signal() != 0) callback_();
}

void StopSignals::Listen() {
  pthread_setname_np(pthread_self(), "mr-signals");
  const sigset_t signals = Signals();
  SteadyTime same_until;
  while (true) {
    int number = 0;
    sigwait(&signals, &number);
    MutexLock lock(mu_);
    if (closing_) return;
    // The first signal requests a stop. `received` is set before the callback,
    // whose code may read signal().
    if (held_ && signal() == 0) {
      received = number;
      if (callback_ != nullptr) callback_();
      changed_.NotifyAll();
      // After the callback, which may take long: terminals and process groups
      // often deliver one request twice.
      same_until = SteadyDeadline(options_.same_request);
    } else if (!held_ || SteadyTime::clock::now() >= same_until) {
      MR_LOG(WARNING) << "signal " << number << ": the process exits at once";
      _exit(128 + number);
    }
  }
}

}  // namespace millrace
