#include "server/storage/chunks/offset_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

// The first error of a whole scan; OK: none.
absl::Status ScanStatus(const std::string& chunk,
                        const OffsetTableOptions& options = {}) {
  CopyingWindow window(chunk);
  auto scanner = OffsetTableScanner::Create(window, options);
  if (!scanner.ok()) return scanner.status();
  while (true) {
    const auto record = (*scanner)->Next();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return absl::OkStatus();
  }
}

std::string With(std::string chunk, size_t at, uint32_t number) {
  chunk.replace(at, 4, RawBytes(number));
  return chunk;
}

TEST(OffsetTableTest, FindsTheRecordsInOrder) {
  CopyingWindow window(ChunkOf({"one", "", "three"}, "gap"));
  auto scanner = OffsetTableScanner::Create(window, {.gap = true});
  ASSERT_TRUE(scanner.ok()) << scanner.status();
  EXPECT_EQ((*scanner)->records(), 3u);
  EXPECT_EQ((*scanner)->table_end(), 20u);
  EXPECT_EQ((*scanner)->first_offset(), 23u);
  std::vector<std::string> records;
  for (int i = 0; i < 3; ++i) {
    const auto record = (*scanner)->Next();
    ASSERT_TRUE(record.ok() && record->has_value()) << i;
    // The window is used between two records.
    records.push_back(TextOf(*window.At((*record)->offset, (*record)->bytes)));
  }
  EXPECT_THAT(records, ::testing::ElementsAre("one", "", "three"));
  for (int i = 0; i < 2; ++i) {
    const auto end = (*scanner)->Next();
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_FALSE(end->has_value());
  }
}

TEST(OffsetTableTest, ATableOfManyBlocksIsReadInBlocks) {
  constexpr int kRecords = 200'000;
  CopyingWindow window(ChunkOf(std::vector<std::string>(kRecords, "ab")));
  auto scanner = OffsetTableScanner::Create(window, {});
  ASSERT_TRUE(scanner.ok()) << scanner.status();
  for (uint64_t i = 0; i < kRecords; ++i) {
    const auto record = (*scanner)->Next();
    ASSERT_TRUE(record.ok() && record->has_value());
    ASSERT_EQ((*record)->offset, (*scanner)->table_end() + 2 * i);
    ASSERT_EQ((*record)->bytes, 2u);
  }
  EXPECT_FALSE((*scanner)->Next()->has_value());
  EXPECT_LE(window.largest(), 1u << 18);
}

TEST(OffsetTableTest, AChunkWithoutSamplesIsEmpty) {
  EXPECT_TRUE(ScanStatus(ChunkOf({})).ok());
}

TEST(OffsetTableTest, ACutFileIsDamagedWhereverItWasCut) {
  const std::string chunk = ChunkOf({"one", "two"});
  for (size_t bytes = 0; bytes < chunk.size(); ++bytes) {
    const absl::Status status = ScanStatus(chunk.substr(0, bytes));
    EXPECT_TRUE(absl::IsDataLoss(status)) << bytes << ": " << status;
    EXPECT_THAT(status.message(), Begins("byte ")) << bytes;
  }
  EXPECT_THAT(ScanStatus(chunk.substr(0, chunk.size() - 1)).message(),
              HasSubstr("sample 1 of the file begins at byte 19 and ends at "
                        "byte 22, and the file has 21 bytes"));
}

TEST(OffsetTableTest, ATableLargerThanTheFileAllocatesNothing) {
  CopyingWindow window(With(ChunkOf({"one"}), 0, 0xFFFFFFFF));
  const auto scanner = OffsetTableScanner::Create(window, {});
  EXPECT_TRUE(absl::IsDataLoss(scanner.status()));
  EXPECT_THAT(scanner.status().message(),
              HasSubstr("the table of 4294967295 samples needs 17179869188 "
                        "bytes, and the file has 15"));
  EXPECT_LE(window.largest(), 4u);
}

TEST(OffsetTableTest, OffsetsMustRiseAndStayInside) {
  const std::string chunk = ChunkOf({"one", "two"});  // 16, 19, 22
  EXPECT_THAT(ScanStatus(With(chunk, 8, 15)).message(),
              HasSubstr("byte 8: sample 0 of the file begins at byte 16 and "
                        "ends at byte 15, before its beginning"));
  EXPECT_THAT(ScanStatus(With(chunk, 8, 23)).message(),
              HasSubstr("ends at byte 23, and the file has 22 bytes"));
  EXPECT_THAT(ScanStatus(With(chunk, 4, 15)).message(),
              HasSubstr("the first sample begins at byte 15"));
  EXPECT_THAT(ScanStatus(With(chunk, 4, 17)).message(),
              HasSubstr("the first sample begins at byte 17"));
  EXPECT_TRUE(ScanStatus(With(chunk, 4, 17), {.gap = true}).ok());
  EXPECT_THAT(ScanStatus(With(chunk, 4, 23), {.gap = true}).message(),
              HasSubstr("the first sample begins at byte 23"));
}

TEST(OffsetTableTest, BytesBehindTheLastSampleMustBeTheKnownTrailer) {
  const std::string chunk = ChunkOf({"one"});
  EXPECT_THAT(ScanStatus(chunk + "rows END").message(),
              HasSubstr("byte 15: 8 bytes follow the last of 1 samples"));
  const OffsetTableOptions options = {.trailer_end = "END"};
  EXPECT_TRUE(ScanStatus(chunk + "rows END", options).ok());
  EXPECT_TRUE(ScanStatus(chunk, options).ok());
  EXPECT_FALSE(ScanStatus(chunk + "rows EN", options).ok());
  EXPECT_FALSE(ScanStatus(chunk + "ND", options).ok());
}

}  // namespace
}  // namespace millrace::storage
