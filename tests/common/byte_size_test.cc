// Sizes as people write and read them.

#include "common/byte_size.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ParseByteSizeTest, ReadsNumbersWithUnits) {
  const std::vector<std::pair<std::string, uint64_t>> cases = {
      {"0", 0},
      {"17", 17},
      {"17B", 17},
      {"1KiB", 1024},
      {"64k", 65536},
      {"1.5 MiB", 1572864},
      {"2GiB", uint64_t{2} << 30},
      {" 2 gib ", uint64_t{2} << 30},
      {"2G", uint64_t{2} << 30},
      {"2GB", 2000000000},
      {"1TiB", uint64_t{1} << 40},
      {"0.5", 0},
      {"9007199254740993", 9007199254740993},  // more than a double holds
      {"9223372036854775807", INT64_MAX},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseByteSize(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseByteSizeTest, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", " ", "GiB", "-1", "+1", "1e9", "1.2.3", "2 Gi B", "2GiBs", "0x10",
        "9223372036854775808", "16777216TiB", "nan", "."}) {
    const auto parsed = ParseByteSize(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                ::testing::HasSubstr(std::string("`") + text + "`"));
  }
}

TEST(FormatByteSizeTest, TakesTheLargestUnitThatFits) {
  const std::vector<std::pair<uint64_t, std::string>> cases = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {65536, "64 KiB"},
      {(1 << 20) - 1, "1 MiB"},
      {1572864, "1.5 MiB"},
      {uint64_t{200} << 20, "200 MiB"},
      {uint64_t{12563} << 20, "12.3 GiB"},
      {uint64_t{1} << 62, "4 EiB"},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(FormatByteSize(bytes), text);
  }
}

TEST(FormatByteSizeTest, TheExactFormNamesTheBytesThatRoundingHides) {
  EXPECT_EQ(FormatExactByteSize(0), "0 B");
  EXPECT_EQ(FormatExactByteSize(1023), "1023 B");
  EXPECT_EQ(FormatExactByteSize(1572864), "1.5 MiB");
  EXPECT_EQ(FormatExactByteSize(6291467), "6 MiB (6291467 bytes)");
}

}  // namespace
}  // namespace millrace
