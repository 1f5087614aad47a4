#include "server/storage/imagefolder/folder_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSum[] = "0123456789abcdef0123456789abcdef";

FolderIndex Example() {
  FolderIndex index;
  index.folder = "/data/\xFF train";
  index.rules = 1;
  index.decoders = "pnm 1.0 abc\n";
  index.listed_nanos = 1'700'000'000'123'456'789;
  ListedFiles cats, dogs;
  cats.Add("2.jpg", 20, -5);
  cats.Add("1.jpg", 10, 7);
  dogs.Add("sub/1.png", 4'000'000'000, 9);
  EXPECT_TRUE(index.files.AddClass("cat", 0, cats).ok());
  EXPECT_TRUE(index.files.AddClass("dog", 1, dogs).ok());
  index.folders = {{"", 1, 2, 3}, {"cat", -4, 5, 6}};
  index.warnings = {"1 file left out: \xFE"};
  index.listing_sum = HashToHex(index.files.ListingSum());
  index.content_sum = kSum;
  return index;
}

void Repair(std::string* bytes) {
  const uint64_t sum = XXH3_64bits(bytes->data() + 24, bytes->size() - 24);
  std::memcpy(bytes->data() + 16, &sum, sizeof(sum));
}

TEST(FolderIndexTest, ComesBackAsItWas) {
  const FolderIndex index = Example();
  const auto same = DecodeFolderIndex(EncodeFolderIndex(index));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(EncodeFolderIndex(*same), EncodeFolderIndex(index));
  EXPECT_EQ(same->folder, index.folder);
  EXPECT_EQ(same->files.PathOf(0), "cat/1.jpg");
  EXPECT_EQ(same->files.PathOf(2), "dog/sub/1.png");
  EXPECT_EQ(same->files.bytes(2), 4'000'000'000);
  EXPECT_EQ(same->files.modified_nanos(1), -5);
  EXPECT_EQ(same->files.LabelOf(2), 1);
  EXPECT_EQ(same->folders.size(), 2);
  EXPECT_TRUE(same->folders[1].SameAs(index.folders[1]));
  EXPECT_THAT(same->warnings, ElementsAre(index.warnings[0]));
  EXPECT_THAT(same->ClassNames(), ElementsAre("cat", "dog"));
}

TEST(FolderIndexTest, EveryChangeIsNoticed) {
  const std::string whole = EncodeFolderIndex(Example());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(DecodeFolderIndex(whole.substr(0, bytes)).ok()) << bytes;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 0x10;
    EXPECT_FALSE(DecodeFolderIndex(changed).ok()) << at;
  }
  EXPECT_FALSE(DecodeFolderIndex(whole + "x").ok());
}

TEST(FolderIndexTest, AnotherVersionIsNotRead) {
  std::string bytes = EncodeFolderIndex(Example());
  bytes[8] = 2;
  const absl::Status status = DecodeFolderIndex(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
}

// A checksum that is right does not make a path that leads out of the folder.
TEST(FolderIndexTest, NamesThatNoListingHasAreRefused) {
  for (const std::string& name :
       {std::string("../../etc/passwd"), std::string("a/../b.jpg"),
        std::string("/etc/passwd"), std::string(".hidden.jpg"),
        std::string("a//b.jpg"), std::string("a/"), std::string("\xFF.jpg"),
        std::string("a\0.jpg", 6)}) {
    FolderIndex index = Example();
    ListedFiles files;
    files.Add(name, 1, 1);
    ASSERT_TRUE(index.files.AddClass("eel", 2, files).ok());
    EXPECT_FALSE(DecodeFolderIndex(EncodeFolderIndex(index)).ok()) << name;
  }
  for (const char* name : {"..", "a/b", "", "\xFF"}) {
    FolderIndex index = Example();
    ListedFiles files;
    files.Add("1.jpg", 1, 1);
    ASSERT_TRUE(index.files.AddClass(name, 2, files).ok());
    EXPECT_FALSE(DecodeFolderIndex(EncodeFolderIndex(index)).ok()) << name;
  }
}

TEST(FolderIndexTest, ClassesMustFitTheFiles) {
  ListedFiles one;
  one.Add("1.jpg", 1, 1);
  {
    FolderIndex index = Example();
    ASSERT_TRUE(index.files.AddClass("eel", 1, one).ok());  // a label twice
    EXPECT_FALSE(DecodeFolderIndex(EncodeFolderIndex(index)).ok());
  }
  {
    FolderIndex index = Example();
    ASSERT_TRUE(index.files.AddClass("eel", 7, one).ok());
    EXPECT_FALSE(DecodeFolderIndex(EncodeFolderIndex(index)).ok());
  }
  {
    FolderIndex index = Example();
    ASSERT_TRUE(index.files.AddClass("ape", 2, one).ok());  // out of order
    EXPECT_FALSE(DecodeFolderIndex(EncodeFolderIndex(index)).ok());
  }
  EXPECT_FALSE(DecodeFolderIndex(EncodeFolderIndex(FolderIndex())).ok());
}

// The order of the columns' bytes, as docs/formats.md has it.
TEST(FolderIndexTest, TheColumnsAreAtTheEnd) {
  std::string bytes = EncodeFolderIndex(Example());
  const std::string tail = absl::StrCat("1.jpg", "2.jpg", "sub/1.png");
  EXPECT_EQ(bytes.substr(bytes.size() - tail.size()), tail);
  uint32_t head_bytes;
  std::memcpy(&head_bytes, bytes.data() + 12, sizeof(head_bytes));
  const size_t columns = (24 + head_bytes + 7) / 8 * 8;
  EXPECT_EQ(columns + 3 * 16 + tail.size(), bytes.size());
  int64_t modified;
  std::memcpy(&modified, bytes.data() + columns, sizeof(modified));
  EXPECT_EQ(modified, 7);
  // A repaired checksum alone does not make a damaged column good: the first
  // name would end before it begins.
  const uint32_t none = 0;
  std::memcpy(bytes.data() + columns + 3 * 12, &none, sizeof(none));
  Repair(&bytes);
  const absl::Status status = DecodeFolderIndex(bytes).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("names are damaged"));
}

TEST(FolderIndexTest, TheFingerprintFollowsFromTheContentWhenItIsKnown) {
  FolderIndex index = Example();
  const std::string with_content = DescribeFolder(index).fingerprint();
  index.listing_sum = kSum;
  EXPECT_EQ(DescribeFolder(index).fingerprint(), with_content);
  index.content_sum.clear();
  // Of the same number, but never the same fingerprint.
  const std::string listed = DescribeFolder(index).fingerprint();
  EXPECT_NE(listed, with_content);
  index.listing_sum[0] = 'f';
  EXPECT_NE(DescribeFolder(index).fingerprint(), listed);
  const DatasetInfo info = DescribeFolder(index);
  EXPECT_EQ(info.format(), "imagefolder");
  EXPECT_EQ(info.samples(), 3);
  EXPECT_EQ(info.shards(0).bytes(), 4'000'000'030);
  EXPECT_EQ(info.shards(0).name(), "\\377 train");
  EXPECT_EQ(info.shards(0).content_sum(), "");
}

}  // namespace
}  // namespace millrace::storage
