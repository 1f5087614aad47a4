#include "client/cli/interrupt.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace millrace {
namespace {

// How late the destructor may be.
constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 50'000'000};
constexpr int kExitInterrupted = 130;

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  thread_ = NamedThread("mr-interrupt", [this] { Wait(); });
}

Interrupt::~Interrupt() {
  stop_ = true;
  thread_.Join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::OnSignal(std::function<void()> action) {
  MutexLock lock(mu_);
  action_ = std::move(action);
  if (happened_ && action_ != nullptr) action_();
}

void Interrupt::Wait() {
  const sigset_t set = Signals();
  while (!stop_) {
    if (sigtimedwait(&set, nullptr, &kLook) < 0) continue;
    if (happened_.exchange(true)) _exit(kExitInterrupted);
    MutexLock lock(mu_);
    if (action_ != nullptr) action_();
  }
}

}  // namespace millrace
