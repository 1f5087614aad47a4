#include "server/data_tool/progress.h"

#include <gtest/gtest.h>

namespace millrace::data_tool {
namespace {

// "1281167/1281167, 17100/s, 0.0 MB/s".
TEST(ToolProgressTest, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(ToolProgressText("packing", 320'000, 1'281'167, 2'400'000'000, 20),
            "packing [#######.......................] 320,000/1,281,167, "
            "16,000/s, 120.0 MB/s");
  EXPECT_EQ(ToolProgressText("verifying", 10, 10, 5'000, 2),
            "verifying [##############################] 10/10, 5/s, 2.5 kB/s");
}

TEST(ToolProgressTest, LeavesOutASizeThatIsNotCounted) {
  EXPECT_EQ(ToolProgressText("checking", 5, 10, 0, 2),
            "checking [###############...............] 5/10, 2.5/s");
}

}  // namespace
}  // namespace millrace::data_tool
