#include "server/storage/foreign_lmdb/datum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/server/storage/foreign_lmdb/environment_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(DatumTest, HasTheFieldsOfAnImage) {
  const std::string bytes = DatumBytes({.channels = 3,
                                        .height = 224,
                                        .width = 300,
                                        .data = "abc",
                                        .label = 999,
                                        .encoded = true});
  Datum datum;
  ASSERT_TRUE(ParseDatum(Bytes(bytes), &datum).ok());
  EXPECT_EQ(datum.channels, 3);
  EXPECT_EQ(datum.height, 224);
  EXPECT_EQ(datum.width, 300);
  EXPECT_EQ(datum.label, 999);
  EXPECT_TRUE(datum.encoded);
  EXPECT_EQ(std::string(datum.data.begin(), datum.data.end()), "abc");
  // A view, not a copy.
  EXPECT_GE(datum.data.data(), Bytes(bytes).data());
  EXPECT_LT(datum.data.data(), Bytes(bytes).data() + bytes.size());
}

TEST(DatumTest, ANegativeLabelStaysNegative) {
  Datum datum;
  const std::string bytes = DatumBytes({.label = -2});
  ASSERT_TRUE(ParseDatum(Bytes(bytes), &datum).ok());
  EXPECT_EQ(datum.label, -2);
}

TEST(DatumTest, FloatsArePackedOrNotOrBoth) {
  const std::vector<float> numbers = {1.5f, -2, 3};
  const std::string apart = DatumBytes({.floats = numbers});
  const std::string packed = DatumBytes({.floats = numbers, .packed = true});
  for (const std::string& bytes : {apart, packed, apart + packed}) {
    Datum datum;
    ASSERT_TRUE(ParseDatum(Bytes(bytes), &datum).ok());
    std::vector<float> copy(datum.floats);
    ASSERT_TRUE(CopyFloats(Bytes(bytes), datum,
                           reinterpret_cast<uint8_t*>(copy.data())));
    std::vector<float> expected = numbers;
    if (copy.size() > 3) {
      expected.insert(expected.end(), numbers.begin(), numbers.end());
    }
    EXPECT_EQ(copy, expected);
  }
}

TEST(DatumTest, OtherNumbersThanThoseThatWereCountedAreNoticed) {
  const std::string three = DatumBytes({.floats = {1, 2, 3}});
  const std::string two = DatumBytes({.floats = {1, 2}});
  Datum datum;
  ASSERT_TRUE(ParseDatum(Bytes(two), &datum).ok());
  std::vector<float> copy(datum.floats);
  EXPECT_FALSE(
      CopyFloats(Bytes(three), datum, reinterpret_cast<uint8_t*>(copy.data())));
  ASSERT_TRUE(ParseDatum(Bytes(three), &datum).ok());
  copy.resize(datum.floats);
  EXPECT_FALSE(
      CopyFloats(Bytes(two), datum, reinterpret_cast<uint8_t*>(copy.data())));
}

TEST(DatumTest, OtherMessagesAreRefusedWithTheirPlace) {
  const std::string good = DatumBytes({.channels = 3, .label = 1});
  Datum datum;
  const auto why = [&datum](const std::string& bytes) {
    const absl::Status status = ParseDatum(Bytes(bytes), &datum);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  // Field 8, field 1 as bytes, a length beyond the end, half a number, a packed
  // list of 5 bytes.
  EXPECT_THAT(why(good + "\x40\x01"),
              HasSubstr("byte 4 of the value: field 8 of wire type 0"));
  EXPECT_THAT(why("\x0a\x01x"),
              HasSubstr("byte 0 of the value: field 1 of wire type 2"));
  EXPECT_THAT(why(good + "\x22\x05xx"), HasSubstr("no protobuf message"));
  EXPECT_THAT(why(good + "\x28\x80"), HasSubstr("no protobuf message"));
  EXPECT_THAT(why("\x32\x05zzzzz"), HasSubstr("field 6 of wire type 2"));
  EXPECT_THAT(why("\xFF\xD8\xFF\xE0 a JPEG"), HasSubstr("byte 0"));
}

}  // namespace
}  // namespace millrace::storage
