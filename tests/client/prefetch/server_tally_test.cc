#include "client/prefetch/server_tally.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace millrace::prefetch {
namespace {

absl::Time At(int64_t ms) { return absl::UnixEpoch() + absl::Milliseconds(ms); }

TEST(ServerTallyTest, CountsABatchAtTheServerThatBroughtIt) {
  ServerTally tally;
  BatchHeader header;
  header.mutable_stage_micros()->set_decode(2000);
  EXPECT_EQ(tally.Count("a", header, false, At(0), At(10)), 0);
  EXPECT_EQ(tally.Count("b", BatchHeader(), true, At(0), At(10)), 1);
  EXPECT_EQ(tally.Count("a", BatchHeader(), true, At(20), At(30)), 0);
  tally.CountWait(1, 0.5);
  ASSERT_EQ(tally.times().size(), 2);
  const diagnosis::ServerTimes& a = tally.times()[0];
  EXPECT_EQ(a.address, "a");
  EXPECT_EQ(a.batches, 2);
  EXPECT_EQ(a.timed_batches, 1);
  EXPECT_EQ(a.shared_batches, 1);
  EXPECT_DOUBLE_EQ(a.decode_seconds, 0.002);
  EXPECT_DOUBLE_EQ(a.receive_seconds, 0.02);
  EXPECT_EQ(a.waited_seconds, 0);
  EXPECT_EQ(tally.times()[1].waited_seconds, 0.5);
}

TEST(ServerTallyTest, BatchesThatArriveSideBySideCountOnce) {
  ServerTally tally;
  tally.Count("a", BatchHeader(), false, At(0), At(10));
  tally.Count("a", BatchHeader(), false, At(5), At(12));
  EXPECT_DOUBLE_EQ(tally.times()[0].receive_seconds, 0.012);
}

TEST(ServerTallyTest, NamesWithoutEndDoNotGrowIt) {
  ServerTally tally;
  size_t last = 0;
  for (size_t i = 0; i < 2 * ServerTally::kMaxServers; ++i) {
    last = tally.Count(absl::StrCat(i), BatchHeader(), false, At(0), At(1));
  }
  EXPECT_EQ(last, ServerTally::kMaxServers - 1);
  ASSERT_EQ(tally.times().size(), ServerTally::kMaxServers);
  EXPECT_EQ(tally.times().front().address, "0");
  EXPECT_EQ(tally.times().back().address, "others");
  EXPECT_EQ(tally.times().back().batches, ServerTally::kMaxServers + 1);
}

}  // namespace
}  // namespace millrace::prefetch
