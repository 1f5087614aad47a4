#include "server/storage/parquet/chunk_cost.h"

#include <parquet/exception.h>
#include <parquet/size_statistics.h>
#include <parquet/types.h>

#include <algorithm>
#include <limits>

#include "server/storage/parquet/codec_memory.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kPageBytes = ChunkCost::kPageBytes;
// Larger chunks are read page by page.
constexpr uint64_t kMaxChunkBytes = 4 << 20;
constexpr uint64_t kStreamBytes = 32 << 10;
constexpr uint64_t kReaderBytes = 16 << 10;

bool AllPagesAreDictionary(const parquet::ColumnChunkMetaData& chunk) {
  bool any = false;
  for (const parquet::PageEncodingStats& stats : chunk.encoding_stats()) {
    if (stats.page_type == parquet::PageType::DICTIONARY_PAGE) continue;
    if (stats.encoding != parquet::Encoding::PLAIN_DICTIONARY &&
        stats.encoding != parquet::Encoding::RLE_DICTIONARY) {
      return false;
    }
    any = true;
  }
  return any && chunk.has_dictionary_page();
}

uint64_t NotNegative(int64_t number) {
  if (number < 0) throw parquet::ParquetException("a size is negative");
  return static_cast<uint64_t>(number);
}

// Bytes of one decoded value.
uint64_t WidthOf(const parquet::ColumnDescriptor& column) {
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
      return 2;  // as a byte, then as a bit
    case parquet::Type::INT32:
    case parquet::Type::FLOAT:
      return 4;
    case parquet::Type::INT96:
      return 12;
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return NotNegative(column.type_length());
    default:
      return 8;
  }
}

// A lower bound of the dictionary page once it is decompressed; 0: there is no
// dictionary.
uint64_t DictionaryBytes(const parquet::ColumnChunkMetaData& chunk) {
  if (!chunk.has_dictionary_page()) return 0;
  if (AllPagesAreDictionary(chunk)) {
    // The other pages hold an index and levels for each value.
    constexpr uint64_t kIndexBytes = 8;
    const uint64_t encoded = NotNegative(chunk.total_uncompressed_size());
    const uint64_t values = NotNegative(chunk.num_values());
    return values > encoded / kIndexBytes ? 0 : encoded - kIndexBytes * values;
  }
  // The stored page.
  const int64_t begin = chunk.dictionary_page_offset();
  const int64_t end = chunk.data_page_offset();
  if (begin <= 0 || end <= begin) return 0;
  return std::min(static_cast<uint64_t>(end - begin),
                  NotNegative(chunk.total_compressed_size()));
}

// What the dictionary page takes beyond `counted`: the decoder's copy of the
// values, and the page that the copy is made of, unless the page is a part of
// the stored chunk.
uint32_t LargeDictionaryKib(const parquet::ColumnChunkMetaData& chunk,
                            bool stream, uint64_t counted) {
  const uint64_t page = DictionaryBytes(chunk);
  if (page <= kPageBytes) return 0;
  const bool in_chunk =
      !stream && chunk.compression() == parquet::Compression::UNCOMPRESSED;
  const uint64_t copies = in_chunk ? page : 2 * page;
  if (copies <= counted) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(
      (copies - counted) >> 10, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

ChunkCost CostOf(const parquet::ColumnChunkMetaData& chunk,
                 const parquet::ColumnDescriptor& column, int64_t rows,
                 uint64_t widened, bool text) {
  const uint64_t stored = NotNegative(chunk.total_compressed_size());
  const uint64_t encoded = NotNegative(chunk.total_uncompressed_size());
  const double each_row = 1.0 / static_cast<double>(std::max<int64_t>(1, rows));
  const uint64_t page = std::min(encoded, kPageBytes);
  ChunkCost cost;
  cost.stream = stored > kMaxChunkBytes;
  cost.codec_kib = static_cast<uint16_t>(
      (UsualCodecBytes(chunk.compression()) + 1023) >> 10);
  cost.fixed = kReaderBytes;
  cost.fixed +=
      cost.stream ? kStreamBytes + std::min(stored, kPageBytes) : stored;
  if (cost.stream ||
      chunk.compression() != parquet::Compression::UNCOMPRESSED) {
    cost.fixed += page;
  }
  const double values =
      static_cast<double>(NotNegative(chunk.num_values())) * each_row;
  if (column.physical_type() != parquet::Type::BYTE_ARRAY) {
    const auto width = static_cast<double>(WidthOf(column));
    if (chunk.has_dictionary_page()) cost.fixed += 2 * page;
    // Values and levels grow by doubling, into new memory. Arrow's lists and
    // the null markers take memory in addition.
    const bool repeated = column.max_repetition_level() > 0;
    if (const auto index = chunk.GetOffsetIndexLocation();
        repeated && index.has_value()) {
      cost.fixed += 8 * NotNegative(index->length);  // parsed
    }
    cost.per_row = values * (3 * width + (repeated ? 3 * 4 : 3 * 2) + 1) +
                   static_cast<double>(widened) + (repeated ? 16 : 1);
    return cost;
  }
  // Strings: the size of the values, if the file states it.
  uint64_t plain = encoded;
  bool known = false;
  if (const auto sizes = chunk.size_statistics();
      sizes != nullptr && sizes->unencoded_byte_array_data_bytes.has_value()) {
    plain = NotNegative(*sizes->unencoded_byte_array_data_bytes);
    known = true;
  }
  cost.dictionary =
      text && AllPagesAreDictionary(chunk) && (!known || plain > 2 * encoded);
  if (cost.dictionary) {
    // The dictionary is in memory as its page, as the decoder's copy, as a
    // table of its values (which grows by doubling), and as the array's copy.
    cost.fixed += 6 * encoded;
    cost.per_row = ChunkCost::kStringBytes;
    return cost;
  }
  if (chunk.has_dictionary_page()) {
    cost.fixed += 2 * page;
    // With the page that is decompressed and the one that is read.
    cost.large_dictionary_kib =
        LargeDictionaryKib(chunk, cost.stream, 4 * page);
  }
  cost.per_row = 3 * static_cast<double>(plain) * each_row +
                 static_cast<double>(ChunkCost::kStringBytes);
  return cost;
}

}  // namespace millrace::storage
