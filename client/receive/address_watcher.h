// AddressWatcher asks the resolver again and again for the addresses behind an
// endpoint, because servers come and go: every `interval`, and soon after
// RefreshSoon(). Looking up a name blocks, so it has a thread of its own; an
// endpoint of numeric addresses cannot change and needs none. A host that
// cannot be looked up keeps its addresses, the others go on changing. New
// addresses come with the round trip to them.
//
// Thread-safe. The destructor joins the thread and waits for a lookup in
// progress.

#ifndef MILLRACE_CLIENT_RECEIVE_ADDRESS_WATCHER_H_
#define MILLRACE_CLIENT_RECEIVE_ADDRESS_WATCHER_H_

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "client/receive/endpoint.h"
#include "common/mutex.h"

namespace millrace {

class AddressWatcher {
 public:
  // `known` are the addresses that are in use already. `changed` is called on
  // the watcher's thread when Take() has something new.
  AddressWatcher(std::vector<HostPort> hosts, const std::vector<Address>& known,
                 absl::Duration interval, std::function<void()> changed);
  ~AddressWatcher();
  AddressWatcher(const AddressWatcher&) = delete;
  AddressWatcher& operator=(const AddressWatcher&) = delete;

  // A server failed: look again now, at most once in two seconds.
  void RefreshSoon();

  // The newest addresses, once.
  std::optional<std::vector<Address>> Take();

 private:
  void Loop();
  // Looks every host up; false when none of them could be.
  bool LookUp();

  const std::vector<HostPort> hosts_;
  const absl::Duration interval_;
  const std::function<void()> changed_;
  // Addresses of each host, as last found. Touched by the watcher's thread
  // alone, once it runs.
  std::vector<std::vector<Address>> known_;
  Mutex mu_;
  CondVar wake_;
  bool stop_ MR_GUARDED_BY(mu_) = false;
  // RefreshSoon() was called since the last lookup began.
  bool refresh_ MR_GUARDED_BY(mu_) = false;
  // What Take() has not fetched yet; a newer result replaces an older one.
  std::optional<std::vector<Address>> found_ MR_GUARDED_BY(mu_);
  // Not joinable when every address is numeric. Last: it uses all of the above.
  std::thread thread_;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_ADDRESS_WATCHER_H_
