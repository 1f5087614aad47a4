// The index file: what it gives back, and that nothing else passes for one.

#include "server/storage/extents/extent_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/storage/extents/index_samples.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectTheSamples(const ExtentIndex& index) {
  EXPECT_EQ(index.samples(), 5);
  ASSERT_EQ(index.objects(), 3);
  EXPECT_EQ(index.object(2).name, "/data/2.tar");
  EXPECT_EQ(index.object(2).first_sample, 3);
  EXPECT_EQ(index.object(2).identity, (ObjectIdentity{.bytes = 10'000,
                                                      .modified_nanos = 9,
                                                      .changed_nanos = 10,
                                                      .inode = 9}));
  EXPECT_EQ(index.extent(2).offset, 2000);
  EXPECT_EQ(index.extent(2).bytes, 8000);
  EXPECT_EQ(index.extent(4).bytes, 0);
  EXPECT_EQ(index.largest_extent(), 8000);
  // The object without samples has none of them.
  const int objects[] = {0, 0, 0, 2, 2};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(index.ObjectOf(i), objects[i]) << i;
}

TEST(ExtentIndexTest, GivesBackWhatWasListed) {
  const auto index = ExtentIndex::FromBytes(MakeIndex(false).Encode());
  ASSERT_TRUE(index.ok()) << index.status();
  ExpectTheSamples(**index);
  EXPECT_TRUE((*index)->value(1, 0).empty());
  EXPECT_TRUE((*index)->lengths(2).empty());
  EXPECT_GT((*index)->memory_bytes(), 0);
  EXPECT_TRUE((*index)->CheckUnchanged().ok());
}

TEST(ExtentIndexTest, GivesBackWhatWasRead) {
  const auto index = ExtentIndex::FromBytes(MakeIndex(true).Encode());
  ASSERT_TRUE(index.ok()) << index.status();
  ExpectTheSamples(**index);
  const int64_t labels[] = {4, 0, 1, 2, 3};
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ((*index)->value(1, i).size(), 8);
    EXPECT_EQ(std::memcmp((*index)->value(1, i).data(), &labels[i], 8), 0);
  }
  EXPECT_TRUE((*index)->value(0, 0).empty());
  EXPECT_THAT((*index)->lengths(2), ElementsAre(1, 2, 3, 0, 5));
  EXPECT_TRUE((*index)->lengths(1).empty());
}

TEST(ExtentIndexTest, AFileIsMappedAndItsPagesAreNotCounted) {
  TempFolder folder;
  const std::string bytes = MakeIndex(true).Encode();
  WriteFile(folder / "i", bytes);
  const auto index = ExtentIndex::Open(folder / "i");
  ASSERT_TRUE(index.ok()) << index.status();
  ExpectTheSamples(**index);
  const auto owned = ExtentIndex::FromBytes(bytes);
  EXPECT_LT((*index)->memory_bytes() + bytes.size() / 2,
            (*owned)->memory_bytes());
  EXPECT_TRUE((*index)->CheckUnchanged().ok());
  WriteFile(folder / "i", "x");
  EXPECT_TRUE(absl::IsUnavailable((*index)->CheckUnchanged()));
  EXPECT_FALSE(ExtentIndex::Open(folder / "none").ok());
}

TEST(ExtentIndexTest, AnotherHeadKeepsTheColumns) {
  MadeIndex made = MakeIndex(true);
  const auto index = ExtentIndex::FromBytes(made.Encode());
  ASSERT_TRUE(index.ok());
  ExtentIndexHead head = (*index)->head();
  head.mutable_objects(1)->set_inode(77);
  const auto other = ExtentIndex::FromBytes((*index)->WithHead(head));
  ASSERT_TRUE(other.ok()) << other.status();
  ExpectTheSamples(**other);
  EXPECT_EQ((*other)->object(1).identity.inode, 77);
  EXPECT_EQ((*other)->value(1, 0).size(), 8);
  EXPECT_EQ((*other)->lengths(2).size(), 5);
}

// Paths, inodes and times of attribute changes do not count: copies agree.
TEST(ExtentIndexTest, TheListingSumIsThatOfCopies) {
  const MadeIndex made = MakeIndex(false);
  const auto sum = [](const MadeIndex& index) {
    return ExtentListingSum(index.head, index.columns.offsets,
                            index.columns.bytes);
  };
  MadeIndex copy = made;
  ExtentIndexObject& object = *copy.head.mutable_objects(0);
  object.set_name("/else/0.tar");
  object.set_inode(1);
  object.set_changed_nanos(1);
  EXPECT_EQ(sum(copy), sum(made));
  object.set_modified_nanos(1);
  EXPECT_NE(sum(copy), sum(made));
  MadeIndex others[] = {made, made, made, made, made};
  others[0].head.mutable_objects(1)->set_name("/data/9.tar");
  others[1].columns.offsets[1] = 101;
  others[2].columns.bytes[4] = 1;
  others[3].head.set_rule("another");
  // The same extents, of other objects.
  others[4].head.mutable_objects(0)->set_samples(2);
  others[4].head.mutable_objects(1)->set_samples(1);
  for (const MadeIndex& other : others) EXPECT_NE(sum(other), sum(made));
}

std::string Message(std::string bytes) {
  const auto index = ExtentIndex::FromBytes(std::move(bytes));
  return index.ok() ? "" : std::string(index.status().message());
}

TEST(ExtentIndexTest, DamageIsSeen) {
  const std::string bytes = MakeIndex(true).Encode();
  for (size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_THAT(Message(bytes.substr(0, size)), HasSubstr("it is damaged"));
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(Message(damaged), "") << at;
  }
  EXPECT_THAT(Message(bytes + "x"), HasSubstr("too long"));
  std::string newer = bytes;
  newer[8] = 2;
  const auto index = ExtentIndex::FromBytes(newer);
  EXPECT_TRUE(absl::IsUnimplemented(index.status())) << index.status();
}

// With a right checksum: what no writer writes.
TEST(ExtentIndexTest, WrongHeadsAreRefused) {
  const auto message = [](auto change) {
    MadeIndex made = MakeIndex(true);
    change(made);
    return Message(made.Encode());
  };
  EXPECT_EQ(message([](MadeIndex&) {}), "");
  EXPECT_THAT(message([](MadeIndex& m) { m.columns.offsets[3] = 10'000; }),
              HasSubstr("not within its object"));
  EXPECT_THAT(message([](MadeIndex& m) { m.columns.offsets[0] = UINT64_MAX; }),
              HasSubstr("not within its object"));
  EXPECT_THAT(
      message([](MadeIndex& m) { m.head.mutable_values(0)->set_bytes(4); }),
      HasSubstr("columns are wrong"));
  EXPECT_THAT(
      message([](MadeIndex& m) { m.head.mutable_values(0)->set_field(3); }),
      HasSubstr("columns are wrong"));
  EXPECT_THAT(message([](MadeIndex& m) { m.head.set_lengths(0, 0); }),
              HasSubstr("columns are wrong"));
  EXPECT_THAT(message([](MadeIndex& m) { m.head.clear_lengths(); }),
              HasSubstr("too long"));
  EXPECT_THAT(message([](MadeIndex& m) { m.columns.lengths.clear(); }),
              HasSubstr("too short"));
  EXPECT_THAT(message([](MadeIndex& m) { m.head.set_content_sum("x"); }),
              HasSubstr("sums are wrong"));
  EXPECT_THAT(message([](MadeIndex& m) { m.head.clear_schema(); }),
              HasSubstr("the schema has no fields"));
  const auto counts = [](int64_t first, int64_t second) {
    MadeIndex made = MakeIndex(true);
    made.Encode();
    made.head.mutable_objects(0)->set_samples(first);
    made.head.mutable_objects(1)->set_samples(second);
    return Message(EncodeExtentIndex(made.head, made.columns));
  };
  EXPECT_THAT(counts(-1, 4), HasSubstr("objects are wrong"));
  EXPECT_THAT(counts(INT64_MAX, INT64_MAX), HasSubstr("objects are wrong"));
  EXPECT_THAT(counts(int64_t{1} << 47, 0), HasSubstr("too short"));
}

}  // namespace
}  // namespace millrace::storage
