// Which connections are found, by counts that are made up.

#include "server/rpc/stalled_requests.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

constexpr char kPeer[] = "ipv4:10.0.0.7:5000";

class StalledRequestsTest : public ::testing::Test {
 protected:
  // Connections found in `looks` looks.
  size_t Look(const RequestCounts& counts, int looks, uint64_t calls = 0) {
    size_t found = 0;
    for (int i = 0; i < looks; ++i) {
      for (const auto& one : stalled_.Look({counts}, {{kPeer, calls}})) {
        EXPECT_EQ(one.peer, kPeer);
        requests_ = one.requests;
        ++found;
      }
    }
    return found;
  }

  StalledRequests stalled_{{.looks = 3}};
  uint64_t requests_ = 0;
};

TEST_F(StalledRequestsTest, ARequestThatStaysIncomplete) {
  const RequestCounts counts = {1, kPeer, /*begun=*/20, /*ended=*/0,
                                /*received=*/5};
  EXPECT_EQ(Look(counts, 2), 0);
  EXPECT_EQ(Look(counts, 1), 1);
  EXPECT_EQ(requests_, 15);
  // It was closed and still is there.
  EXPECT_EQ(Look(counts, 2), 0);
  EXPECT_EQ(Look(counts, 1), 1);
}

TEST_F(StalledRequestsTest, OneThatBecomesCompleteInBetween) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Look({1, kPeer, 20, 10, 19}, 2), 0);
    EXPECT_EQ(Look({1, kPeer, 20, 10, 20}, 1), 0);
  }
}

TEST_F(StalledRequestsTest, CallsThatRunForLong) {
  // Health's Watch, of which only gRPC knows.
  EXPECT_EQ(Look({1, kPeer, 1, 0, 1}, 10), 0);
  // A GetBatches call, on a connection where calls were given up before their
  // requests were there.
  EXPECT_EQ(Look({1, kPeer, 9, 8, 5}, 10, /*calls=*/1), 0);
  // And a request that stalls beside it.
  EXPECT_EQ(Look({1, kPeer, 10, 8, 5}, 3, /*calls=*/1), 1);
  EXPECT_EQ(requests_, 1);
}

TEST_F(StalledRequestsTest, AnotherConnectionIsAnotherOne) {
  EXPECT_EQ(Look({1, kPeer, 1, 0, 0}, 2), 0);
  EXPECT_EQ(Look({2, kPeer, 1, 0, 0}, 2), 0);
}

// gRPC reads its counters one by one.
TEST_F(StalledRequestsTest, CountsThatDoNotFitTogether) {
  EXPECT_EQ(Look({1, kPeer, 5, 6, 7}, 10), 0);
  EXPECT_EQ(Look({1, kPeer, 5, 4, 7}, 10), 0);
}

TEST(PlainPeerTest, IsThatOfTheAcceptLoop) {
  EXPECT_EQ(PlainPeer("ipv4:10.0.0.7:5000"), "10.0.0.7:5000");
  EXPECT_EQ(PlainPeer("ipv6:%5B::1%5D:5000"), "::1:5000");
  EXPECT_EQ(PlainPeer("ipv6:%5Bfe80::1%25eth0%5D:5000"), "fe80::1:5000");
  EXPECT_EQ(PlainPeer("unix:/run/x"), "unix:/run/x");
}

}  // namespace
}  // namespace millrace::rpc
