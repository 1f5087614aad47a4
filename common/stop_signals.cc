#include "common/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "common/logging.h"

namespace millrace {
namespace {

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
    if (held_ && signal() == 0) {
      received = number;
      if (callback_ != nullptr) callback_();
      changed_.NotifyAll();
      same_until = SteadyDeadline(options_.same_request);
    } else if (!held_ || SteadyTime::clock::now() >= same_until) {
      MR_LOG(WARNING) << "signal " << number << ": the process exits at once";
      _exit(128 + number);
    }
  }
}

}  // namespace millrace
