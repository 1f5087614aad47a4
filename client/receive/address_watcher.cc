#include "client/receive/address_watcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "common/logging.h"

namespace millrace {
namespace {

constexpr absl::Duration kShortestInterval = absl::Seconds(2);

}  // namespace

AddressWatcher::AddressWatcher(std::vector<HostPort> hosts,
                               absl::Duration interval,
                               std::function<void()> changed)
    : hosts_(std::move(hosts)),
      interval_(interval),
      changed_(std::move(changed)) {
  const bool may_change =
      std::any_of(hosts_.begin(), hosts_.end(),
                  [](const HostPort& host) { return !host.numeric; });
  if (may_change) thread_ = std::thread([this] { Loop(); });
}

AddressWatcher::~AddressWatcher() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void AddressWatcher::RefreshSoon() {
  MutexLock lock(mu_);
  if (refresh_) return;
  refresh_ = true;
  wake_.NotifyAll();
}

std::optional<std::vector<Address>> AddressWatcher::Take() {
  MutexLock lock(mu_);
  return std::exchange(found_, std::nullopt);
}

void AddressWatcher::Loop() {
  while (true) {
    {
      MutexLock lock(mu_);
      const absl::Time soonest = absl::Now() + kShortestInterval;
      const absl::Time latest = absl::Now() + interval_;
      while (!stop_) {
        const absl::Time until = refresh_ ? soonest : latest;
        if (absl::Now() >= until) break;
        wake_.WaitUntil(lock, until);
      }
      if (stop_) return;
      refresh_ = false;
    }
    std::string trouble;
    absl::StatusOr<std::vector<Address>> addresses =
        ResolveHosts(hosts_, &trouble);
    if (!addresses.ok() || !trouble.empty()) {
      // The addresses that are known may still be right.
      MR_LOG_EVERY(WARNING, absl::Seconds(30))
          << trouble << "; the addresses known so far stay in use";
      continue;
    }
    {
      MutexLock lock(mu_);
      found_ = *std::move(addresses);
    }
    changed_();
  }
}

}  // namespace millrace
