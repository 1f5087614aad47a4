#include "client/cli/interrupt.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace millrace {
namespace {

// How late the destructor may be.
constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 50'000'000};
constexpr timespec kNoWait = {};
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
  if (!happened_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::OnSignal(std::function<void()> action) {
  MutexLock lock(mu_);
  action_ = std::move(action);
  if (happened_ && action_ != nullptr) action_();
}

void Interrupt::Wait() {
  const sigset_t set = Signals();
  SteadyTime same_until;
  while (!stop_) {
    if (sigtimedwait(&set, nullptr, &kLook) < 0) continue;
    if (happened_) {
      if (SteadyTime::clock::now() < same_until) continue;
      _exit(kExitInterrupted);
    }
    same_until = SteadyDeadline(kSameRequest);
    happened_ = true;
    {
      MutexLock lock(mu_);
      if (action_ != nullptr) action_();
    }
    while (sigtimedwait(&set, nullptr, &kNoWait) > 0) {
    }
  }
}

}  // namespace millrace
