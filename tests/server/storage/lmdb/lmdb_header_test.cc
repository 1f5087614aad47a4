#include "server/storage/lmdb/lmdb_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<LmdbHeader> Parse(const std::string& bytes, uint64_t size) {
  return ParseLmdbHeader(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                          bytes.size()),
      size);
}

class LmdbHeaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Pack(absl::StrCat("lmdb:", folder_ / "d"), ImageDataset(100),
                     ImageSamples(100))
                    .ok());
    bytes_ = ReadFile(folder_ / "d");
  }
  TempFolder folder_;
  std::string bytes_;
};

TEST_F(LmdbHeaderTest, AWholeFilePasses) {
  const auto header = Parse(bytes_, bytes_.size());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries, 101);
  EXPECT_EQ(header->pages * header->page_size, bytes_.size());
}

TEST_F(LmdbHeaderTest, OneMissingByteIsSeen) {
  const auto header = Parse(bytes_, bytes_.size() - 1);
  EXPECT_TRUE(absl::IsDataLoss(header.status()));
  EXPECT_THAT(std::string(header.status().message()),
              AllOf(HasSubstr("truncated: it has "),
                    HasSubstr(absl::StrCat("(", bytes_.size() - 1,
                                           " bytes), "
                                           "and its last page is number ")),
                    HasSubstr(" of pages of 4 KiB")));
}

TEST_F(LmdbHeaderTest, EveryPrefixIsRefused) {
  for (size_t size = 0; size < 9000; size += size < 200 ? 1 : 97) {
    EXPECT_TRUE(absl::IsDataLoss(Parse(bytes_.substr(0, size), size).status()))
        << size;
  }
}

// Whatever a header says, reading it is safe: run under ASan.
TEST_F(LmdbHeaderTest, AnyChangedByteIsHandled) {
  for (size_t at = 0; at < 400; ++at) {
    for (int value : {0, 1, 0x7F, 0x80, 0xFF}) {
      std::string damaged = bytes_.substr(0, kLmdbHeaderBytes);
      damaged[at] = static_cast<char>(value);
      const auto header = Parse(damaged, bytes_.size());
      if (header.ok()) {
        EXPECT_LE(header->pages * header->page_size, bytes_.size());
      }
    }
  }
}

}  // namespace
}  // namespace millrace::storage
