#include "common/flag_needs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace millrace {
namespace {

std::string Refusal(const std::set<std::string>& given) {
  const std::vector<FlagNeed> needs = {
      {"plot", {"sweep"}}, {"shape", {"synthetic", "latency", "file"}}};
  const absl::Status status =
      CheckFlagNeeds(needs, [&given](absl::string_view name) {
        return given.count(std::string(name)) > 0;
      });
  if (status.ok()) return "";
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST(FlagNeedsTest, NamesTheFlagAndThoseThatAreMissing) {
  EXPECT_EQ(Refusal({}), "");
  EXPECT_EQ(Refusal({"sweep", "latency"}), "");
  EXPECT_EQ(Refusal({"plot", "sweep", "shape", "latency"}), "");
  EXPECT_EQ(Refusal({"plot", "latency"}),
            "--plot has no effect without --sweep: add it, or remove --plot");
  EXPECT_EQ(Refusal({"shape", "sweep"}),
            "--shape has no effect without --synthetic, --latency or --file: "
            "add one of them, or remove --shape");
}

}  // namespace
}  // namespace millrace
