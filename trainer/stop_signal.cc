#include "trainer/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace millrace {
namespace {

// What the destructor wakes the thread with.
constexpr int kWake = SIGUSR2;
// A signal that comes so soon after the first was answered says the same.
constexpr std::chrono::seconds kSameWish(1);

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, kWake}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Run(); });
}

StopSignal::~StopSignal() {
  ended_ = true;
  pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
}

void StopSignal::OnSignal(std::function<void()> callback) {
  MutexLock lock(mu_);
  callback_ = std::move(callback);
  if (callback_ && signal_ != 0) callback_();
}

void StopSignal::Run() {
  using Clock = std::chrono::steady_clock;
  const sigset_t signals = Signals();
  Clock::time_point answered;
  while (!ended_) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || signal == kWake) continue;
    if (signal_ != 0) {
      if (Clock::now() - answered < kSameWish) continue;
      _exit(128 + signal);
    }
    MutexLock lock(mu_);
    signal_ = signal;
    if (callback_) callback_();
    answered = Clock::now();
  }
}

}  // namespace millrace
