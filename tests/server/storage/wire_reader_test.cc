#include "server/storage/wire_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace::storage {
namespace {

using std::string_literals::operator""s;

// "NUMBER:TYPE:CONTENT" of each field, and "!" with the position of the damage.
std::vector<std::string> Fields(const std::string& message) {
  WireReader reader(AsBytes(message));
  WireField field;
  std::vector<std::string> fields;
  while (reader.Next(&field)) {
    fields.push_back(absl::StrCat(
        field.number, ":", static_cast<int>(field.type), ":",
        field.type == WireKind::kVarint ? absl::StrCat(field.varint)
                                        : AsText(field.bytes)));
  }
  if (!reader.ok()) {
    fields.push_back(
        absl::StrCat("!", reader.position() - AsBytes(message).data()));
  }
  return fields;
}

using List = std::vector<std::string>;

TEST(WireReader, ReadsEachTypeOfField) {
  EXPECT_EQ(Fields(""), List());
  EXPECT_EQ(Fields("\x08\x96\x01"), List({"1:0:150"}));
  EXPECT_EQ(Fields("\x11"
                   "12345678"),
            List({"2:1:12345678"}));
  EXPECT_EQ(Fields("\x1A\x03"
                   "abc\x1A\x00"s),
            List({"3:2:abc", "3:2:"}));
  EXPECT_EQ(Fields("\x25"
                   "1234"),
            List({"4:5:1234"}));
  EXPECT_EQ(Fields("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"),
            List({"1:0:18446744073709551615"}));
  // A number of 5 bytes.
  EXPECT_EQ(Fields("\xF8\xFF\xFF\xFF\x0F\x01"), List({"536870911:0:1"}));
}

TEST(WireReader, SkipsGroupsWithGroupsInThem) {
  EXPECT_EQ(Fields("\x0B\x10\x05\x1B\x1C\x0C\x08\x01"),
            List({"1:3:", "1:0:1"}));
}

TEST(WireReader, RefusesDamagedFields) {
  EXPECT_EQ(Fields("\x08"), List({"!1"})) << "no value";
  EXPECT_EQ(Fields("\x08\x96"), List({"!1"})) << "a value that does not end";
  EXPECT_EQ(Fields("\x08\x01\x1A\x04"
                   "abc"),
            List({"1:0:1", "!3"}))
      << "a length beyond the end";
  EXPECT_EQ(Fields("\x1A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                   "abc"),
            List({"!1"}))
      << "a length of 2^64 - 1";
  EXPECT_EQ(Fields("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"),
            List({"!1"}))
      << "a number of 11 bytes";
  EXPECT_EQ(Fields("\x88\x80\x80\x80\x80\x00\x01"s), List({"!0"}))
      << "a tag of 6 bytes";
  EXPECT_EQ(Fields("\x00"s), List({"!0"})) << "field 0";
  EXPECT_EQ(Fields("\x0E"), List({"!0"})) << "type 6";
  EXPECT_EQ(Fields("\x0F"), List({"!0"})) << "type 7";
  EXPECT_EQ(Fields("\x11"
                   "1234567"),
            List({"!1"}));
  EXPECT_EQ(Fields("\x25"
                   "123"),
            List({"!1"}));
}

TEST(WireReader, RefusesDamagedGroups) {
  EXPECT_EQ(Fields("\x0C"), List({"!1"})) << "an end without a group";
  EXPECT_EQ(Fields("\x0B\x10\x05"), List({"!3"})) << "no end";
  EXPECT_EQ(Fields("\x0B\x14"), List({"!2"})) << "the end of another group";
}

TEST(WireReader, BoundsTheDepthOfGroups) {
  const auto nested = [](int depth) {
    return std::string(depth, '\x0B') + std::string(depth, '\x0C');
  };
  EXPECT_EQ(Fields(nested(WireReader::kMaxGroups)), List({"1:3:"}));
  EXPECT_EQ(Fields(nested(WireReader::kMaxGroups + 1)).size(), 1);
  EXPECT_EQ(Fields(nested(WireReader::kMaxGroups + 1))[0][0], '!');
}

TEST(WireReader, ReadsPackedNumbers) {
  const std::string packed = "\x05\x96\x01\x80";
  WireReader reader(AsBytes(packed));
  uint64_t value;
  ASSERT_TRUE(reader.NextVarint(&value));
  EXPECT_EQ(value, 5);
  ASSERT_TRUE(reader.NextVarint(&value));
  EXPECT_EQ(value, 150);
  EXPECT_FALSE(reader.NextVarint(&value));
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace millrace::storage
