// AddressWatcher resolves the names of an endpoint repeatedly, because servers
// come and go: every `interval`, and soon after RefreshSoon(). A host that
// cannot be resolved keeps its addresses; the other hosts are still updated.
// New addresses have their round trip time.
//
// What it is not: it connects to no server, apart from measuring round trips.
//
// Thread-safe. Lookups block, so they run on a thread of its own; an endpoint
// of numeric addresses cannot change and needs no thread. The destructor joins
// the thread and waits for a lookup in progress.
//
//   AddressWatcher watcher(hosts, known, absl::Seconds(30), [&] { Wake(); });
//   if (auto addresses = watcher.Take()) ... use *addresses ...

#ifndef MILLRACE_CLIENT_RECEIVE_ADDRESS_WATCHER_H_
#define MILLRACE_CLIENT_RECEIVE_ADDRESS_WATCHER_H_

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "client/receive/endpoint.h"
#include "common/mutex.h"

namespace millrace::receive {

class AddressWatcher {
 public:
  // `known` are the addresses in use. `changed` is called on the watcher's
  // thread when Take() has a new result.
  AddressWatcher(std::vector<HostPort> hosts, const std::vector<Address>& known,
                 absl::Duration interval, std::function<void()> changed);
  ~AddressWatcher();
  AddressWatcher(const AddressWatcher&) = delete;
  AddressWatcher& operator=(const AddressWatcher&) = delete;

  // A server failed: resolve again now, at most once in two seconds.
  void RefreshSoon();

  // The newest addresses; each result is returned once.
  std::optional<std::vector<Address>> Take();

 private:
  void Loop();
  // Resolves every host. False: no host could be resolved.
  bool LookUp();

  const std::vector<HostPort> hosts_;
  const absl::Duration interval_;
  const std::function<void()> changed_;
  // Last known addresses of each host. Used by the watcher's thread only, once
  // it runs.
  std::vector<std::vector<Address>> known_;
  Mutex mu_;
  CondVar wake_;
  bool stop_ MR_GUARDED_BY(mu_) = false;
  // RefreshSoon() was called since the last lookup began.
  bool refresh_ MR_GUARDED_BY(mu_) = false;
  // Result for the next Take(); a newer result replaces an older one.
  std::optional<std::vector<Address>> found_ MR_GUARDED_BY(mu_);
  // Not joinable when every address is numeric. Last: it uses all of the above.
  std::thread thread_;
};

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_ADDRESS_WATCHER_H_
