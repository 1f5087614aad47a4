// Which server the next request goes to. spread_test has the same with loaders
// and servers of different speed, hedge_test and late_steps_test the choice of
// a second server.

#include "client/prefetch/server_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "client/prefetch/retry_schedules.h"

namespace millrace::prefetch {
namespace {

using ::testing::Optional;

constexpr ServerId kNone = 0;
constexpr absl::Duration kPatience = absl::Seconds(1);

// Servers 1 and 2 are connected, 3 is not.
class ServerSetTest : public ::testing::Test {
 protected:
  ServerSetTest() { Update(true, true); }

  void Update(bool first, bool second) {
    servers_.Update(std::vector<ServerState>{
        {1, "a", first}, {2, "b", second}, {3, "c", false}});
  }

  std::optional<ServerId> Pick(ServerId avoid = kNone) const {
    return servers_.Pick(now_, avoid);
  }

  absl::Time now_ = absl::UnixEpoch();
  ServerSet servers_{1};
};

TEST_F(ServerSetTest, TheServerWithTheFewestOutstandingStepsIsNext) {
  EXPECT_THAT(Pick(), Optional(ServerId{1}));
  servers_.Asked(1, 4, now_);
  EXPECT_THAT(Pick(), Optional(ServerId{2}));
  servers_.Asked(2, 6, now_);
  EXPECT_THAT(Pick(), Optional(ServerId{1}));
  servers_.Settled(2, 6);
  EXPECT_THAT(Pick(), Optional(ServerId{2}));
}

TEST_F(ServerSetTest, ClientsWithAnotherRotationBeginWithAnotherServer) {
  ServerSet other(1, 1);
  const std::vector<ServerState> both = {{1, "a", true}, {2, "b", true}};
  other.Update(both);
  EXPECT_THAT(other.Pick(now_, kNone), Optional(ServerId{2}));
}

TEST_F(ServerSetTest, OnlyTheAvoidedServerIsBetterThanNone) {
  EXPECT_THAT(Pick(1), Optional(ServerId{2}));
  Update(true, false);
  EXPECT_THAT(Pick(1), Optional(ServerId{1}));
  EXPECT_FALSE(servers_.PickOther(now_, 1, kPatience).has_value());
  Update(false, false);
  EXPECT_FALSE(Pick().has_value());
  EXPECT_EQ(servers_.usable(), 0u);
}

TEST_F(ServerSetTest, AFailureDelaysTheNextRequestAndDoublesTheDelay) {
  EXPECT_EQ(servers_.Failed(1, now_, now_, "connection refused"), 1u);
  EXPECT_THAT(Pick(), Optional(ServerId{2}));
  EXPECT_EQ(servers_.Failed(1, now_, now_, "connection refused"), 0u)
      << "a call of the same connection";
  Update(true, false);
  EXPECT_FALSE(Pick().has_value());
  now_ += kServerRetry.first;
  EXPECT_THAT(Pick(), Optional(ServerId{1}));
  EXPECT_EQ(servers_.Failed(1, now_, now_, "reset"), 2u);
  now_ += kServerRetry.first / 2;
  EXPECT_FALSE(Pick().has_value());
  now_ += 2 * kServerRetry.first;
  EXPECT_THAT(Pick(), Optional(ServerId{1}));
  EXPECT_EQ(servers_.Describe(),
            "a: reset; b: not connected; c: not connected");
  servers_.Progress(1, absl::Milliseconds(10));
  EXPECT_EQ(servers_.Failed(1, now_, now_, "reset"), 1u);
}

TEST_F(ServerSetTest, AServerThatIsLeftOutIsTriedAgainLater) {
  EXPECT_TRUE(servers_.LeaveOut(1, now_, "another plan"));
  EXPECT_FALSE(servers_.LeaveOut(1, now_, "another plan"));
  EXPECT_EQ(servers_.usable(), 1u);
  EXPECT_EQ(servers_.Share(1), 0);
  EXPECT_EQ(servers_.Share(2), 1);
  EXPECT_TRUE(servers_.OthersMayServe(1));
  EXPECT_TRUE(servers_.OthersMayServe(2)) << "server 3 may come";
  Update(true, false);
  EXPECT_FALSE(Pick().has_value());
  now_ += ServerSet::kLeaveOutFor;
  EXPECT_THAT(Pick(), Optional(ServerId{1}));
  EXPECT_FALSE(servers_.PickOther(now_, 2, kPatience).has_value());
  EXPECT_TRUE(servers_.Progress(1, absl::Milliseconds(10)));
  EXPECT_EQ(servers_.usable(), 1u);
  EXPECT_THAT(servers_.PickOther(now_, 2, kPatience), Optional(ServerId{1}));
  servers_.LeaveOut(2, now_, "another plan");
  servers_.LeaveOut(3, now_, "another plan");
  EXPECT_FALSE(servers_.OthersMayServe(1));
}

TEST_F(ServerSetTest, ASilentServerIsAvoidedUntilItIsConnectedAgain) {
  servers_.Asked(1, 4, now_);
  now_ += absl::Seconds(2);
  EXPECT_EQ(servers_.Quiet(1, now_), absl::Seconds(2));
  EXPECT_EQ(servers_.Quiet(2, now_), absl::ZeroDuration()) << "owes none";
  EXPECT_FALSE(servers_.PickOther(now_, 2, kPatience).has_value());
  EXPECT_TRUE(servers_.Silent(1, now_));
  EXPECT_FALSE(servers_.Silent(1, now_));
  EXPECT_EQ(servers_.silences(1), 1u);
  servers_.Asked(2, 100, now_);
  EXPECT_THAT(Pick(), Optional(ServerId{2}));

  // A new connection that the client asked for proves nothing.
  servers_.Reconnected(1, now_);
  EXPECT_FALSE(servers_.OnNewestConnection(1, now_));
  EXPECT_TRUE(servers_.OnNewestConnection(1, now_ + absl::Nanoseconds(1)));
  Update(false, true);
  Update(true, true);
  EXPECT_TRUE(servers_.IsSilent(1, now_));
  Update(false, true);
  Update(true, true);
  EXPECT_FALSE(servers_.IsSilent(1, now_));
  EXPECT_EQ(servers_.silences(1), 0u);
  EXPECT_THAT(Pick(), Optional(ServerId{1}));
}

TEST_F(ServerSetTest, ASlowServerGetsASmallerShareAndNotNone) {
  EXPECT_EQ(servers_.Share(1), 0.5);
  for (int i = 0; i < 1000; ++i) {
    servers_.Progress(1, absl::Milliseconds(1));
    servers_.Progress(2, absl::Seconds(1));
  }
  EXPECT_GT(servers_.Share(1), 0.8);
  EXPECT_GT(servers_.Share(2), 0.05);
  EXPECT_DOUBLE_EQ(servers_.Share(1) + servers_.Share(2), 1);
}

TEST_F(ServerSetTest, AServerThatIsNoLongerListedIsForgotten) {
  servers_.LeaveOut(1, now_, "another plan");
  servers_.Update(std::vector<ServerState>{{2, "b", true}});
  EXPECT_EQ(servers_.AddressOf(1), "a server that was removed");
  EXPECT_EQ(servers_.Failed(1, now_, now_, "reset"), 0u);
  Update(true, true);
  EXPECT_EQ(servers_.usable(), 2u);
  servers_.Update({});
  EXPECT_EQ(servers_.Describe(), "the name resolves to no address");
}

}  // namespace
}  // namespace millrace::prefetch
