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

TEST(ExtentIndexTest, AnIndexOfFilesHasNamesAndIdentities) {
  MadeIndex made = MakeFileIndex();
  const auto made_index = ExtentIndex::FromBytes(made.Encode());
  ASSERT_TRUE(made_index.ok()) << made_index.status();
  const auto again =
      ExtentIndex::FromBytes((*made_index)->WithHead((*made_index)->head()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->checksum(), (*made_index)->checksum());
  const ExtentIndex& index = **again;
  ASSERT_TRUE(index.has_files());
  EXPECT_EQ(index.samples(), 3);
  EXPECT_EQ(index.file_name(0), "a.jpg");
  EXPECT_EQ(index.FilePath(0), "/data/a.jpg");
  EXPECT_EQ(index.FilePath(1), "/else/b.jpg");
  EXPECT_EQ(index.file_identity(1), (ObjectIdentity{.bytes = 7000,
                                                    .modified_nanos = 2,
                                                    .changed_nanos = 5,
                                                    .inode = 8,
                                                    .tag = ""}));
  EXPECT_EQ(index.extent(1).offset, 0);
  EXPECT_EQ(index.extent(1).bytes, 7000);
  EXPECT_EQ(index.largest_extent(), 7000);
  EXPECT_EQ(index.TotalFileBytes(), 7103);
  EXPECT_FALSE(index.has_values(0));
  EXPECT_TRUE(index.has_values(1));
  EXPECT_EQ(index.value(1, 2)[0], 1);
  EXPECT_EQ(index.value(2, 0).size(), 0);
  EXPECT_EQ(index.value(2, 1).size(), 12);
  EXPECT_EQ(index.value(2, 2)[3], 'f');
  EXPECT_EQ(index.ObjectOf(2), 0);
  EXPECT_EQ(index.ListingSum(), made.ListingSum());
}

// Copies agree: paths of the table, inodes and times of attribute changes do
// not count.
TEST(ExtentIndexTest, TheListingSumOfFilesIsThatOfCopies) {
  const MadeIndex made = MakeFileIndex();
  MadeIndex copy = made;
  copy.head.mutable_objects(0)->set_name("/copy/labels.csv");
  copy.head.mutable_objects(0)->set_modified_nanos(1);
  copy.head.set_options("classes=/copy/names.txt\n");
  copy.columns.changed_nanos[0] = 1;
  copy.columns.inodes[0] = 1;
  EXPECT_EQ(copy.ListingSum(), made.ListingSum());
  MadeIndex others[] = {made, made, made, made, made, made};
  others[0].head.set_rule("another");
  others[1].columns.bytes[0] = 1;
  others[2].columns.modified_nanos[0] = 0;
  others[3].columns.name_ends[0] = 4;
  others[4].columns.values[0][0] = 1;
  others[5].columns.value_ends[1][0] = 4;
  for (const MadeIndex& other : others) {
    EXPECT_NE(other.ListingSum(), made.ListingSum());
  }
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
  newer[8] = 3;
  const auto index = ExtentIndex::FromBytes(newer);
  EXPECT_TRUE(absl::IsUnimplemented(index.status())) << index.status();
}

TEST(ExtentIndexTest, DamageOfAnIndexOfFilesIsSeen) {
  const std::string bytes = MakeFileIndex().Encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Message(bytes.substr(0, size)), HasSubstr("it is damaged"));
  }
  std::string of_records = bytes;
  of_records[8] = 1;
  EXPECT_THAT(Message(of_records), HasSubstr("its version is wrong"));
  const auto message = [](auto change) {
    MadeIndex made = MakeFileIndex();
    change(made);
    return Message(made.Encode());
  };
  EXPECT_EQ(message([](MadeIndex&) {}), "");
  EXPECT_THAT(message([](MadeIndex& m) {
                m.columns.name_ends = {6, 5, 17};
              }),
              HasSubstr("its names are wrong"));
  EXPECT_THAT(message([](MadeIndex& m) {
                m.columns.value_ends[1] = {20, 12, 16};
              }),
              HasSubstr("its values are wrong"));
  EXPECT_THAT(
      message([](MadeIndex& m) { m.columns.name_ends[2] = uint64_t{1} << 63; }),
      HasSubstr("it is too short"));
  EXPECT_THAT(
      message([](MadeIndex& m) { m.head.mutable_objects(1)->set_samples(1); }),
      HasSubstr("its objects are wrong"));
  EXPECT_THAT(message([](MadeIndex& m) {
                m.head.mutable_values(0)->set_bytes(0);
                m.columns.value_ends[0] = {8, 16, 24};
              }),
              HasSubstr("its columns are wrong"));
  // A field that no column has.
  EXPECT_THAT(message([](MadeIndex& m) {
                Field& field = *m.head.mutable_schema()->add_fields();
                field.set_name("x");
                field.set_kind(FIELD_KIND_TENSOR);
                field.set_dtype(DTYPE_INT64);
              }),
              HasSubstr("its columns are wrong"));
  EXPECT_THAT(
      message([](MadeIndex& m) { m.head.mutable_values(1)->set_field(0); }),
      HasSubstr("its columns are wrong"));
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
