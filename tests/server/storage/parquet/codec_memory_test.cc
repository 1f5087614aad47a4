// What Arrow's codecs allocate to decompress pages: it is bounded for every
// codec, whatever the page holds, and counts in the cache's bytes. It was
// allocated by malloc in addition to them.

#include "server/storage/parquet/codec_memory.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "server/storage/columns/bounded_pool.h"
#include "server/storage/open.h"
#include "server/storage/parquet/page_header.h"
#include "server/storage/parquet/page_rows.h"
#include "server/storage/parquet/parquet_file.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/allocation_meter.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

constexpr arrow::Compression::type kCodecs[] = {
    arrow::Compression::UNCOMPRESSED, arrow::Compression::SNAPPY,
    arrow::Compression::GZIP,         arrow::Compression::BROTLI,
    arrow::Compression::ZSTD,         arrow::Compression::LZ4,
};

// Beside the codec: Arrow's objects.
constexpr int64_t kSmallBytes = 8 << 10;

std::shared_ptr<arrow::Array> Squares(int64_t rows) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(builder.Append(i * i).ok());
  return *builder.Finish();
}

// What decompressing `packed` into `bytes` bytes allocates at most.
int64_t DecompressionPeak(arrow::util::Codec& codec, const std::string& packed,
                          int64_t bytes, bool* ok) {
  std::string out(bytes, '\0');
  const AllocationMeter meter;
  const auto unpacked =
      codec.Decompress(static_cast<int64_t>(packed.size()),
                       reinterpret_cast<const uint8_t*>(packed.data()), bytes,
                       reinterpret_cast<uint8_t*>(out.data()));
  const int64_t peak = meter.peak();
  *ok = unpacked.ok() && *unpacked == bytes;
  return peak;
}

TEST(CodecMemory, EveryCodecStaysWithinItsBound) {
  std::string bytes;
  uint32_t state = 1;
  while (bytes.size() < 3'000'000) {
    state = state * 1664525 + 1013904223;
    absl::StrAppend(&bytes, "row ", state >> 12, ";");
  }
  for (const auto type : kCodecs) {
    if (type == arrow::Compression::UNCOMPRESSED) continue;
    SCOPED_TRACE(arrow::util::Codec::GetCodecAsString(type));
    const auto codec = *arrow::util::Codec::Create(type);
    const auto size = static_cast<int64_t>(bytes.size());
    const auto* in = reinterpret_cast<const uint8_t*>(bytes.data());
    std::string packed(codec->MaxCompressedLen(size, in), '\0');
    packed.resize(*codec->Compress(size, in, packed.size(),
                                   reinterpret_cast<uint8_t*>(packed.data())));
    bool ok = false;
    const int64_t peak = DecompressionPeak(*codec, packed, size, &ok);
    EXPECT_TRUE(ok);
    RecordProperty(arrow::util::Codec::GetCodecAsString(type),
                   absl::StrCat(peak));
    EXPECT_EQ(CodecBytes(type, packed[0]), UsualCodecBytes(type));
    EXPECT_LE(peak, UsualCodecBytes(type) + kSmallBytes);
    EXPECT_LE(UsualCodecBytes(type), MaxCodecBytes(type));
  }
}

// The window of a Brotli stream is allocated as the stream asks for it.
TEST(CodecMemory, BrotliTakesWhatTheFirstByteSays) {
  const auto codec = *arrow::util::Codec::Create(arrow::Compression::BROTLI);
  int64_t largest = 0;
  for (int first = 0; first < 256; ++first) {
    // Mostly a block of 16 MiB that is not there.
    for (const char* rest : {"\xFF\xFF\xFF", "\xFF\xFF\xFF\x01",
                             "\xF0\xFF\xFF\x0F", "\xFC\xFF\xFF\x07"}) {
      bool ok = false;
      const int64_t peak = DecompressionPeak(
          *codec, absl::StrCat(std::string(1, static_cast<char>(first)), rest),
          1000, &ok);
      EXPECT_LE(peak, CodecBytes(arrow::Compression::BROTLI,
                                 static_cast<uint8_t>(first)) +
                          kSmallBytes)
          << first;
      largest = std::max(largest, peak);
    }
  }
  EXPECT_GT(largest, 16 * kMiB);
  EXPECT_LT(largest, MaxCodecBytes(arrow::Compression::BROTLI));
}

// A frame with a window of 2 GiB, and one block of 1000 equal bytes.
TEST(CodecMemory, TheWindowOfZstandardIsNotAllocated) {
  std::string frame = "\x28\xB5\x2F\xFD";
  frame += '\0';    // no size of the content, no checksum
  frame += '\xA8';  // a window of 1 << (10 + 21) bytes
  const uint32_t block = 1000 << 3 | 1 << 1 | 1;  // repeated, the last one
  for (int i = 0; i < 3; ++i) frame += static_cast<char>(block >> 8 * i);
  frame += 'x';
  const auto codec = *arrow::util::Codec::Create(arrow::Compression::ZSTD);
  bool ok = false;
  const int64_t peak = DecompressionPeak(*codec, frame, 1000, &ok);
  EXPECT_TRUE(ok);
  EXPECT_LE(peak, MaxCodecBytes(arrow::Compression::ZSTD) + kSmallBytes);
}

class CodecMemoryTest : public ::testing::Test {
 protected:
  void Write(int64_t rows, arrow::Compression::type codec,
             parquet::ParquetDataPageVersion version =
                 parquet::ParquetDataPageVersion::V1) {
    const auto column = Squares(rows);
    const auto file = *arrow::io::FileOutputStream::Open(path_);
    const arrow::Status status = parquet::arrow::WriteTable(
        *arrow::Table::Make(arrow::schema({arrow::field("f", arrow::int64())}),
                            {column}),
        arrow::default_memory_pool(), file, rows,
        parquet::WriterProperties::Builder()
            .disable_dictionary()
            ->compression(codec)
            ->data_page_version(version)
            ->build());
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(file->Close().ok());
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "d.parquet";
};

TEST_F(CodecMemoryTest, DecompressionIsChargedWhileItLasts) {
  constexpr int64_t kRows = 50'000;
  for (const auto codec : kCodecs) {
    SCOPED_TRACE(arrow::util::Codec::GetCodecAsString(codec));
    for (const auto version : {parquet::ParquetDataPageVersion::V1,
                               parquet::ParquetDataPageVersion::V2}) {
      ASSERT_NO_FATAL_FAILURE(Write(kRows, codec, version));
      const auto file = ParquetFile::Open(path_);
      ASSERT_TRUE(file.ok()) << file.status();
      ColumnPlan plan{.name = "f", .dtype = DTYPE_INT64};
      plan.leaf = *(*file)->Leaf("f", plan.form);
      const ChunkCost cost = (*(*file)->CostsOf(plan))[0];
      const auto planned = static_cast<int64_t>(cost.CodecBytes());
      EXPECT_GE(planned, UsualCodecBytes(codec));
      EXPECT_LT(planned, UsualCodecBytes(codec) + 1024);
      const auto decode = [&](uint64_t room) {
        auto pool = std::make_shared<BoundedPool>(room, nullptr);
        PageRows page_rows(1 << 20);
        ParquetFile::Waste waste;
        const auto decoded =
            (*file)->Decode({.group = 0, .begin = 0, .end = kRows},
                            {{.field = 0, .plan = &plan, .cost = cost}},
                            {.rows = &page_rows}, pool, &waste);
        EXPECT_LE(static_cast<uint64_t>(pool->max_memory()), room);
        if (!decoded.ok()) return decoded.status();
        // The column, without what has decoded it.
        EXPECT_LT(pool->bytes_allocated(), kRows * 8 + 10'000);
        return absl::OkStatus();
      };
      const AllocationMeter meter;
      EXPECT_TRUE(decode(cost.Bytes(kRows) + cost.CodecBytes()).ok());
      // Besides the codec: small buffers, Arrow's objects.
      EXPECT_LE(meter.peak(), UsualCodecBytes(codec) + (512 << 10));
      if (codec == arrow::Compression::BROTLI) {
        const absl::Status refused = decode(cost.Bytes(kRows));
        EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
      }
    }
  }
}

// Four bytes ask for a window of 16 MiB, which the decoder then allocates.
TEST_F(CodecMemoryTest, ALargeWindowOfBrotliIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Write(1000, arrow::Compression::BROTLI));
  const auto read = [&](uint64_t cache, uint64_t* named) {
    ByteBudget budget(cache);
    const auto source = OpenRecordSource(
        "parquet:" + path_, {.cache_budget = &budget,
                             .cache_bytes = budget.capacity(),
                             .cache_advice = [named](uint64_t enough) {
                               *named = enough;
                               return std::string("give the server more");
                             }});
    if (!source.ok()) return source.status();
    const auto reader = (*source)->NewReader();
    return (*reader)->Read(
        7, [](const EncodedSample&) { return absl::OkStatus(); });
  };
  uint64_t named = 0;
  EXPECT_TRUE(read(16 * kMiB, &named).ok());
  const absl::Status small = read(8 * kMiB, &named);
  EXPECT_TRUE(absl::IsResourceExhausted(small)) << small;
  EXPECT_THAT(std::string(small.message()),
              HasSubstr(", decompression 8.6 MiB"));
  EXPECT_TRUE(read(named, &named).ok());

  std::string bytes = ReadFile(path_);
  const auto header = ParsePageHeader(absl::string_view(bytes).substr(4));
  ASSERT_TRUE(header.has_value());
  bytes.replace(4 + header->bytes, 4, "\xCF\xFF\xFF\xFF");
  WriteFile(path_, bytes);
  {
    const AllocationMeter meter;
    const absl::Status refused = read(16 * kMiB, &named);
    EXPECT_LT(meter.peak(), 4 * kMiB);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(
        std::string(refused.message()),
        HasSubstr(absl::StrCat(
            "because decompressing a page takes ",
            FormatByteSize(MaxCodecBytes(arrow::Compression::BROTLI)), "; ")));
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("compression='zstd'"));
  }
  const absl::Status damaged = read(named, &named);
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
}

}  // namespace
}  // namespace millrace::storage
