#include "client/cli/wire_share.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

// Batches of 100 bytes: `taken` of them, `arrived` with `wire` bytes.
HostLoader::Stats Look(uint64_t taken, uint64_t arrived, uint64_t wire) {
  HostLoader::Stats stats;
  stats.batches = taken;
  stats.payload_bytes = 100 * taken;
  stats.wire_bytes = wire;
  diagnosis::ServerTimes server;
  server.address = "data-1:7001";
  server.batches = arrived;
  stats.by_server = {server};
  return stats;
}

TEST(WireShare, IsOfWhatArrivedBetweenTheLooks) {
  EXPECT_DOUBLE_EQ(WireShare({Look(1, 2, 200)}, {Look(5, 10, 600)}), 0.5);
  EXPECT_DOUBLE_EQ(WireShare({Look(1, 2, 200)}, {Look(5, 10, 200)}), 0);
  // With what had arrived in part.
  EXPECT_DOUBLE_EQ(WireShare({Look(1, 2, 200)}, {Look(5, 4, 600)}), 1);
}

// The bench called batches packed that had all come in shared memory before.
TEST(WireShare, IsOfAllThatArrivedWhereNothingDidMeanwhile) {
  EXPECT_DOUBLE_EQ(WireShare({Look(1, 8, 0)}, {Look(4, 8, 0)}), 0);
  EXPECT_DOUBLE_EQ(WireShare({Look(1, 8, 400)}, {Look(4, 8, 400)}), 0.5);
  EXPECT_DOUBLE_EQ(WireShare({Look(1, 8, 0), Look(1, 8, 800)},
                             {Look(4, 8, 0), Look(4, 8, 800)}),
                   0.5);
  EXPECT_DOUBLE_EQ(WireShare({}, {}), 0);
}

}  // namespace
}  // namespace millrace::cli
