#include "client/receive/address_watcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/receive/round_trip.h"
#include "common/logging.h"
#include "common/mutex.h"

namespace millrace::receive {
namespace {

// Min time between two lookups, however many servers fail: a lookup uses the
// network. A choice.
constexpr absl::Duration kMinInterval = absl::Seconds(2);

}  // namespace

AddressWatcher::AddressWatcher(std::vector<HostPort> hosts,
                               const std::vector<Address>& known,
                               absl::Duration interval,
                               std::function<void()> changed)
    : hosts_(std::move(hosts)),
      interval_(interval),
      changed_(std::move(changed)),
      known_(hosts_.size()) {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    for (const Address& address : known) {
      if (address.authority == hosts_[i].text) known_[i].push_back(address);
    }
  }
  const bool may_change =
      std::any_of(hosts_.begin(), hosts_.end(),
                  [](const HostPort& host) { return !host.numeric; });
  if (may_change) thread_ = std::thread([this] { Loop(); });
}

AddressWatcher::~AddressWatcher() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    // Under the lock, under which stop_ is read: the thread cannot miss it. The
    // join below waits for a lookup in progress.
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
      // Both count from the end of the last lookup, so that a slow lookup is
      // not followed by the next one at once.
      const SteadyTime soonest = SteadyDeadline(kMinInterval);
      const SteadyTime latest = SteadyDeadline(interval_);
      while (!stop_) {
        const SteadyTime until = refresh_ ? soonest : latest;
        if (SteadyTime::clock::now() >= until) break;
        wake_.WaitUntil(lock, until);
      }
      if (stop_) return;
      // Cleared before the lookup: a server that fails during the lookup causes
      // another one.
      refresh_ = false;
    }
    if (!LookUp()) continue;
    std::vector<Address> addresses;
    for (const std::vector<Address>& of_host : known_) {
      for (const Address& address : of_host) {
        // Several names may belong to one server.
        if (std::none_of(addresses.begin(), addresses.end(),
                         [&address](const Address& other) {
                           return other.target == address.target;
                         })) {
          addresses.push_back(address);
        }
      }
    }
    {
      MutexLock lock(mu_);
      found_ = std::move(addresses);
    }
    // Without the lock: it wakes the transport, which may call Take().
    changed_();
  }
}

bool AddressWatcher::LookUp() {
  bool any = false;
  std::string trouble;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    absl::StatusOr<std::vector<Address>> found =
        ResolveHosts(absl::MakeSpan(&hosts_[i], 1));
    if (found.ok()) {
      any = true;
      for (Address& address : *found) {
        for (const Address& before : known_[i]) {
          if (before.target == address.target) {
            address.round_trip = before.round_trip;
          }
        }
      }
      MeasureRoundTrips(kRoundTripTimeout, absl::MakeSpan(*found));
      known_[i] = *std::move(found);
    } else {
      // The known addresses of this host may still be right.
      absl::StrAppend(&trouble, trouble.empty() ? "" : "; ",
                      found.status().message());
    }
  }
  if (!trouble.empty()) {
    MR_LOG_EVERY(WARNING, absl::Seconds(30))
        << trouble << "; its last known addresses stay in use";
  }
  return any;
}

}  // namespace millrace::receive
