#include "server/rpc/watchdog.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"

namespace millrace::rpc {

absl::Status Watchdog::Look(SteadyTime now) {
  const SteadyTime::duration time = running_.Look(now);
  if (probe_ == nullptr) {
    if (time < next_) return absl::OkStatus();
    begun_ = time;
    probe_ = new_probe_();
  }
  // Poll() does not block: a probe that hangs costs the thread nothing but the
  // next look.
  std::optional<absl::Status> result = probe_->Poll();
  if (!result.has_value() && time - begun_ >= options_.timeout) {
    result = absl::DeadlineExceededError(absl::StrCat(
        "no answer within ", options_.timeout.count() / 1000, " s"));
  }
  if (!result.has_value()) return absl::OkStatus();
  // Ends the probe's call if it is still in flight.
  probe_ = nullptr;
  // Counted from the start of the last probe, not from its end: the next probe
  // follows at once after a probe that used its whole timeout.
  next_ = begun_ + options_.interval;
  Judge(*result);
  if (failures_ < options_.failures) return absl::OkStatus();
  // Reported once. If the caller continues, the count starts again.
  failures_ = 0;
  return absl::UnavailableError(absl::StrCat(
      "the server does not answer new connections to its own port: ",
      options_.failures,
      " probes in a row failed; last error: ", last_failure_.message()));
}

void Watchdog::Judge(const absl::Status& result) {
  if (result.ok()) {
    if (failures_ > 0) {
      MR_LOG(INFO) << "the server answers the watchdog's probe again";
    }
    // Only a port that could be reached once can fail: behind a firewall or in
    // a container the server's own address may never be reachable from inside.
    armed_ = true;
    failures_ = 0;
    return;
  }
  // The probe was not made (no descriptor is left), so it says nothing of the
  // server: it neither counts as a failure nor ends a row of failures.
  if (absl::IsResourceExhausted(result)) {
    MR_LOG_EVERY(WARNING, absl::Minutes(1))
        << "the watchdog cannot probe the server: " << result.message();
    return;
  }
  if (!armed_) {
    MR_LOG_EVERY(WARNING, absl::Hours(24))
        << "the server cannot reach its own port (" << result.message()
        << "): the watchdog is off until the port can be reached";
    return;
  }
  last_failure_ = result;
  ++failures_;
  MR_LOG(WARNING) << "the watchdog's probe failed (" << failures_ << " of "
                  << options_.failures << "): " << result.message();
}

WatchdogThread::WatchdogThread(const Watchdog::Options& options,
                               NewProbe new_probe,
                               std::function<void(absl::Status)> on_dead)
    : watchdog_(options, std::move(new_probe),
                std::chrono::steady_clock::now()),
      on_dead_(std::move(on_dead)),
      thread_("mr-watchdog", [this] { Run(); }) {}

// Any thread but the watchdog's. on_dead_ may be running: Join() waits for its
// end, so `on_dead` must not destroy the thread object.
WatchdogThread::~WatchdogThread() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

void WatchdogThread::Run() {
  while (true) {
    {
      MutexLock lock(mu_);
      const SteadyTime wake =
          std::chrono::steady_clock::now() + Watchdog::kTick;
      // Waits until the tick is over; a spurious wake-up continues the wait.
      while (!closing_ && changed_.WaitUntil(lock, wake)) {
      }
      if (closing_) return;
    }
    absl::Status status = watchdog_.Look(std::chrono::steady_clock::now());
    if (!status.ok()) {
      // Called without the lock. The thread ends afterwards, so there is at
      // most one call.
      on_dead_(std::move(status));
      return;
    }
  }
}

}  // namespace millrace::rpc
