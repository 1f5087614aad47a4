#include "trainer/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace millrace {
namespace {

// What the destructor wakes the thread with.
constexpr int kWake = SIGUSR2;

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
  const sigset_t signals = Signals();
  while (!ended_) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || signal == kWake) continue;
    if (signal_ != 0) _exit(128 + signal);
    MutexLock lock(mu_);
    signal_ = signal;
    if (callback_) callback_();
  }
}

}  // namespace millrace
