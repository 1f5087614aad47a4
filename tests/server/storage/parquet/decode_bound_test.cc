// The number that a refusal to decode names is enough. It was what the first
// allocation without room would have needed, and the ones behind it were
// refused in turn.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "server/storage/open.h"
#include "server/storage/parquet/chunk_place.h"
#include "server/storage/parquet/page_sizes.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = 1 << 20;

// Hardly compressible, and another one for each row.
std::string Noise(int64_t row, int64_t bytes) {
  std::string noise(bytes, '\0');
  uint32_t state = static_cast<uint32_t>(row) + 1;
  for (char& byte : noise) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return noise;
}

std::shared_ptr<arrow::Array> Images(int64_t rows, int64_t bytes,
                                     int64_t different) {
  arrow::BinaryBuilder images;
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_TRUE(images.Append(Noise(row % different, bytes)).ok());
  }
  return *images.Finish();
}

class DecodeBoundTest : public ::testing::Test {
 protected:
  void Write(const std::shared_ptr<arrow::Array>& column,
             const parquet::WriterProperties::Builder& properties) {
    rows_ = column->length();
    const auto file = *arrow::io::FileOutputStream::Open(path_);
    auto builder = properties;
    const arrow::Status written = parquet::arrow::WriteTable(
        *arrow::Table::Make(
            arrow::schema({arrow::field("image", column->type())}), {column}),
        arrow::default_memory_pool(), file, rows_, builder.build(),
        parquet::ArrowWriterProperties::Builder().store_schema()->build());
    ASSERT_TRUE(written.ok()) << written;
    ASSERT_TRUE(file->Close().ok());
  }

  // Reads all rows with a cache of `bytes`, the last one first; *named is the
  // cache that a refusal asks for.
  absl::Status ReadAll(uint64_t bytes, uint64_t* named) {
    ByteBudget budget(bytes);
    const auto source =
        OpenRecordSource(absl::StrCat("parquet:", path_),
                         {.cache_budget = &budget,
                          .cache_bytes = bytes,
                          .cache_advice = [named](uint64_t enough) {
                            *named = enough;
                            return std::string("give the server more");
                          }});
    if (!source.ok()) return source.status();
    const auto reader = (*source)->NewReader();
    for (int64_t i = 0; i < rows_; ++i) {
      const absl::Status read = (*reader)->Read(
          rows_ - 1 - i, [](const EncodedSample&) { return absl::OkStatus(); });
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  // Returns the refusal.
  std::string ExpectNamedIsEnough(uint64_t cache_bytes, uint64_t max_named) {
    uint64_t named = 0;
    const absl::Status refused = ReadAll(cache_bytes, &named);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_GT(named, cache_bytes);
    EXPECT_LE(named, max_named);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("up to ", FormatExactByteSize(named))));
    uint64_t again = 0;
    const absl::Status read = ReadAll(named, &again);
    EXPECT_TRUE(read.ok()) << read;
    return std::string(refused.message());
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "d.parquet";
  int64_t rows_ = 0;
};

TEST_F(DecodeBoundTest, APageThatIsTheWholeColumn) {
  for (const auto compression :
       {arrow::Compression::UNCOMPRESSED, arrow::Compression::SNAPPY}) {
    // Pages of 1 MiB are wanted, but end only after 1024 rows.
    Write(
        Images(24, 500'000, 24),
        *parquet::WriterProperties::Builder().disable_dictionary()->compression(
            compression));
    const std::string refused = ExpectNamedIsEnough(8 * kMiB, 80 * kMiB);
    EXPECT_THAT(refused, HasSubstr("column 'image'"));
    EXPECT_THAT(refused, HasSubstr("its largest page has 11.4 MiB "
                                   "(24 values)"));
    EXPECT_THAT(refused, HasSubstr("write_batch_size=1"));
  }
  // The way out that is named.
  Write(Images(24, 500'000, 24), *parquet::WriterProperties::Builder()
                                      .disable_dictionary()
                                      ->write_batch_size(1));
  uint64_t named = 0;
  const absl::Status read = ReadAll(8 * kMiB, &named);
  EXPECT_TRUE(read.ok()) << read;
}

// The mean of the values says little of the largest one.
TEST_F(DecodeBoundTest, APageOfOneLargeValue) {
  arrow::BinaryBuilder images;
  for (int64_t row = 0; row < 20; ++row) {
    ASSERT_TRUE(
        images.Append(Noise(row, row == 7 ? 12'000'000 : 200'000)).ok());
  }
  Write(*images.Finish(), *parquet::WriterProperties::Builder()
                               .disable_dictionary()
                               ->compression(arrow::Compression::SNAPPY)
                               ->data_pagesize(1000)
                               ->write_batch_size(1));
  const std::string refused = ExpectNamedIsEnough(20 * kMiB, 130 * kMiB);
  EXPECT_THAT(refused, HasSubstr("(1 value)"));
  EXPECT_THAT(refused, HasSubstr("smaller values"));
  EXPECT_THAT(refused, Not(HasSubstr("write_batch_size")));
}

// Refused before a page is decoded, by what the footer says: of zeros that is
// less than what decoding takes.
TEST_F(DecodeBoundTest, AValueThatThePlanHasNoRoomFor) {
  arrow::BinaryBuilder images;
  ASSERT_TRUE(images.Append(std::string(20'000'000, '\0')).ok());
  Write(*images.Finish(),
        *parquet::WriterProperties::Builder().disable_dictionary()->compression(
            arrow::Compression::SNAPPY));
  uint64_t named = 0;
  const absl::Status refused = ReadAll(20 * kMiB, &named);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_LE(named, 110 * kMiB);
  const absl::Status read = ReadAll(named, &named);
  EXPECT_TRUE(read.ok()) << read;
}

// Open accepted the column, and every batch failed, "because its largest page
// has 10 bytes (4 values)": the page of the indices, not the dictionary.
TEST_F(DecodeBoundTest, ALargeValueInADictionary) {
  arrow::BinaryBuilder images;
  for (const int64_t bytes : {3'000, 13'000'000, 3'001, 3'002}) {
    ASSERT_TRUE(images.Append(std::string(bytes, '\xe1')).ok());
  }
  Write(*images.Finish(), *parquet::WriterProperties::Builder().compression(
                              arrow::Compression::SNAPPY));
  uint64_t named = 0;
  const absl::Status refused = ReadAll(32 * kMiB, &named);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("decoding one row of row group 0 takes 3"),
            HasSubstr(absl::StrCat("or up to ", FormatExactByteSize(named),
                                   ", because its dictionary page has "
                                   "12.4 MiB, but the cache")),
            HasSubstr("use_dictionary=False")));
  EXPECT_LE(named, 140 * kMiB);
  // Not refused where it works.
  for (const uint64_t bytes : {44 * kMiB, named}) {
    uint64_t again = 0;
    const absl::Status read = ReadAll(bytes, &again);
    EXPECT_TRUE(read.ok()) << bytes << ": " << read;
  }
}

// Arrow parsed the statistics outside of its pool, up to 16 MiB for each reader
// and copies of that. Headers of images that polars has written (until 1.x) are
// that long: they hold the smallest image and the largest one.
TEST_F(DecodeBoundTest, LongStatisticsInPageHeaders) {
  for (const bool stream : {false, true}) {
    Write(Images(stream ? 12 : 2, 2'000'000, 12),
          *parquet::WriterProperties::Builder()
               .disable_dictionary()
               ->disable_write_page_index()  // the headers have no statistics
                                             // otherwise
               ->max_statistics_size(64 * kMiB)
               ->compression(arrow::Compression::UNCOMPRESSED)
               ->write_batch_size(1));
    const std::string refused = ExpectNamedIsEnough(16 * kMiB, 90 * kMiB);
    EXPECT_THAT(refused, HasSubstr("column 'image'"));
    EXPECT_THAT(refused, HasSubstr("because statistics in the header of a page "
                                   "have 3.8 MiB"));
    EXPECT_THAT(refused, HasSubstr("without statistics (pyarrow: "
                                   "write_statistics=False"));
  }
  // The way out that is named.
  Write(Images(12, 2'000'000, 12), *parquet::WriterProperties::Builder()
                                        .disable_dictionary()
                                        ->disable_statistics()
                                        ->write_batch_size(1));
  uint64_t named = 0;
  const absl::Status read = ReadAll(16 * kMiB, &named);
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(DecodeBoundTest, PagesOfSeveralRows) {
  Write(Images(48, 500'000, 48), *parquet::WriterProperties::Builder()
                                      .disable_dictionary()
                                      ->write_batch_size(16));
  ExpectNamedIsEnough(10 * kMiB, 300 * kMiB);
}

// Nothing says how large the strings are, of which the dictionary has a few.
TEST_F(DecodeBoundTest, ADictionaryThatIsGivenUp) {
  arrow::StringBuilder strings;
  for (int64_t row = 0; row < 400; ++row) {
    ASSERT_TRUE(strings.Append(std::string(200'000, 'a' + row % 5)).ok());
  }
  for (int64_t row = 0; row < 25; ++row) {
    ASSERT_TRUE(
        strings.Append(std::string(200'000, static_cast<char>('A' + row)))
            .ok());
  }
  Write(*strings.Finish(),
        *parquet::WriterProperties::Builder()
             .set_size_statistics_level(parquet::SizeStatisticsLevel::None)
             ->write_batch_size(10));
  ExpectNamedIsEnough(32 * kMiB, 6144 * kMiB);
}

TEST(PageSizes, AreThoseOfTheLargestPages) {
  TempFolder folder;
  const std::string path = folder / "d.parquet";
  {
    const auto file = *arrow::io::FileOutputStream::Open(path);
    const auto column = Images(10, 100'000, 10);
    ASSERT_TRUE(parquet::arrow::WriteTable(
                    *arrow::Table::Make(
                        arrow::schema({arrow::field("image", column->type())}),
                        {column}),
                    arrow::default_memory_pool(), file, 10,
                    parquet::WriterProperties::Builder()
                        .disable_dictionary()
                        ->data_pagesize(1000)
                        ->write_batch_size(4)
                        ->build())
                    .ok());
    ASSERT_TRUE(file->Close().ok());
  }
  const auto file = *arrow::io::ReadableFile::Open(path);
  const auto reader = parquet::ParquetFileReader::Open(file);
  const auto chunk = reader->metadata()->RowGroup(0)->ColumnChunk(0);
  const ChunkPlace place = PlaceOf(*chunk, *reader->metadata());
  const auto sizes =
      ReadPageSizes(*file, place, arrow::Compression::UNCOMPRESSED);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->data_pages, 3);
  EXPECT_EQ(sizes->values, 4u);
  EXPECT_NEAR(static_cast<double>(sizes->encoded), 400'016, 20);
  EXPECT_EQ(sizes->encoded, sizes->encoded_next);
  EXPECT_EQ(sizes->dictionary, 0u);

  // No header is there.
  EXPECT_TRUE(
      ReadPageSizes(*file,
                    {.begin = place.begin + 1000, .bytes = place.bytes - 1000},
                    arrow::Compression::UNCOMPRESSED)
          .status()
          .IsInvalid());
}

// An integer in Thrift's compact protocol.
std::string Zigzag(int64_t value) {
  uint64_t left =
      static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  std::string bytes;
  for (; left > 0x7F; left >>= 7) {
    bytes += static_cast<char>((left & 0x7F) | 0x80);
  }
  return bytes + static_cast<char>(left);
}

// The position of the next page overflowed: a negative one, where reading began
// anew, or undefined behaviour.
TEST(PageSizes, SizesBeyond32BitsAreRefused) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const auto read = [](int64_t encoded, int64_t stored, int64_t values) {
    const std::string page =
        absl::StrCat("\x15", Zigzag(0), "\x15", Zigzag(encoded), "\x15",
                     Zigzag(stored), "\x2c\x15", Zigzag(values)) +
        std::string(2, '\0');
    arrow::io::BufferReader file(arrow::Buffer::FromString(page));
    return ReadPageSizes(
        file, {.begin = 0, .bytes = static_cast<int64_t>(page.size())},
        arrow::Compression::UNCOMPRESSED);
  };
  const auto whole = read(kMax, kMax, kMax);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->encoded, kMax);
  EXPECT_EQ(whole->stored, kMax);
  EXPECT_EQ(whole->values, kMax);
  for (const int64_t bad :
       {kMax + 1, int64_t{1} << 40, std::numeric_limits<int64_t>::max(),
        int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_TRUE(read(bad, 1, 1).status().IsInvalid()) << bad;
    EXPECT_TRUE(read(1, bad, 1).status().IsInvalid()) << bad;
    EXPECT_TRUE(read(1, 1, bad).status().IsInvalid()) << bad;
  }
}

}  // namespace
}  // namespace millrace::storage
