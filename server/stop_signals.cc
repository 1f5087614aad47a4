#include "server/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include "common/logging.h"

namespace millrace {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  listener_ = std::thread([this] { Listen(); });
}

StopSignals::~StopSignals() {
  {
    MutexLock lock(mu_);
    closing_ = true;
  }
  // The listener is in sigwait, or about to be; a signal for it alone.
  pthread_kill(listener_.native_handle(), SIGTERM);
  listener_.join();
}

void StopSignals::Hold() {
  MutexLock lock(mu_);
  held_ = true;
}

int StopSignals::Await() {
  MutexLock lock(mu_);
  while (number_ == 0) changed_.Wait(lock);
  return number_;
}

void StopSignals::Listen() {
  while (true) {
    int number = 0;
    sigwait(&signals_, &number);
    MutexLock lock(mu_);
    if (closing_) return;
    if (!held_ || number_ != 0) {
      MR_LOG(WARNING) << "signal " << number << ": ended at once";
      _exit(128 + number);
    }
    number_ = number;
    changed_.NotifyAll();
  }
}

}  // namespace millrace
