#include "client/receive/address_watcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "common/mutex.h"

namespace millrace::receive {
namespace {

// Counts calls and lets a test wait for one.
class Signal {
 public:
  void Notify() {
    MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }
  bool WaitFor(int count) {
    MutexLock lock(mu_);
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (count_ < count) {
      if (!changed_.WaitUntil(lock, give_up) && absl::Now() >= give_up) {
        return false;
      }
    }
    return true;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ MR_GUARDED_BY(mu_) = 0;
};

TEST(AddressWatcherTest, LooksANameUpAgainAndAgain) {
  Signal signal;
  AddressWatcher watcher(*ParseEndpoint("localhost:7001"), {},
                         absl::Milliseconds(1), [&signal] { signal.Notify(); });
  ASSERT_TRUE(signal.WaitFor(3));
  std::optional<std::vector<Address>> addresses = watcher.Take();
  ASSERT_TRUE(addresses.has_value());
  ASSERT_EQ(addresses->size(), 1);
  EXPECT_EQ((*addresses)[0].authority, "localhost:7001");
}

// The names under .invalid never resolve.
TEST(AddressWatcherTest, ANameThatFailsKeepsItsAddressesAndHoldsNoOtherBack) {
  Signal signal;
  const std::vector<Address> known = {
      {"ipv4:192.0.2.1:7001", "data.invalid:7001", "data.invalid:7001"},
      {"ipv4:192.0.2.2:7001", "localhost:7001", "localhost:7001 (192.0.2.2)"},
      {"ipv4:192.0.2.3:7001", "gone:7001", "gone:7001 (192.0.2.3)"}};
  AddressWatcher watcher(
      *ParseEndpoint("data.invalid:7001,localhost:7001,127.0.0.1:7001"), known,
      absl::Milliseconds(1), [&signal] { signal.Notify(); });
  // Also after the first time.
  ASSERT_TRUE(signal.WaitFor(2));
  std::optional<std::vector<Address>> addresses = watcher.Take();
  ASSERT_TRUE(addresses.has_value());
  // localhost has moved; 127.0.0.1 is the same server.
  ASSERT_EQ(addresses->size(), 2u);
  EXPECT_EQ((*addresses)[0].target, "ipv4:192.0.2.1:7001");
  EXPECT_EQ((*addresses)[0].authority, "data.invalid:7001");
  EXPECT_EQ((*addresses)[1].target, "ipv4:127.0.0.1:7001");
  EXPECT_EQ((*addresses)[1].authority, "localhost:7001");
}

TEST(AddressWatcherTest, EndsAtOnceWhileItWaits) {
  for (const char* endpoint : {"localhost:7001", "127.0.0.1:7001"}) {
    AddressWatcher watcher(*ParseEndpoint(endpoint), {}, absl::Hours(1),
                           [] { ADD_FAILURE() << "nothing was asked for"; });
    watcher.RefreshSoon();
    EXPECT_FALSE(watcher.Take().has_value());
  }
}

}  // namespace
}  // namespace millrace::receive
