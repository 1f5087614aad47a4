#include "server/storage/parquet/decode_bound.h"

#include <parquet/size_statistics.h>

#include <algorithm>
#include <limits>

#include "server/storage/parquet/page_header.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kMax = std::numeric_limits<int64_t>::max() / 64;

// The product, or kMax if it is larger (for values of unknown size).
uint64_t Product(uint64_t a, uint64_t b) {
  return b != 0 && a > kMax / b ? kMax : a * b;
}

}  // namespace

DecodeBound BoundOf(const parquet::ColumnChunkMetaData& chunk,
                    const parquet::ColumnDescriptor& column,
                    const ChunkCost& cost, const PageSizes& pages) {
  DecodeBound bound = {.cost = cost, .pages = pages};
  // A page stays in memory until the next page is read. A buffer for
  // decompressed pages that is too small is moved into a larger one.
  if (cost.stream) bound.page_bytes += pages.stored + pages.stored_next;
  if (chunk.compression() != parquet::Compression::UNCOMPRESSED) {
    bound.page_bytes += pages.encoded + pages.encoded_next;
  }
  // The page, the decoder's copy, and the pointers into the copy.
  bound.page_bytes += pages.dictionary_stored + 6 * pages.dictionary;
  // Arrow looks at up to twice the header, for which the window of a stream is
  // enlarged.
  bound.page_bytes += PageHeaderMemory(pages.header);
  if (cost.stream && pages.header > kUsualPageHeaderBytes) {
    bound.page_bytes += 3 * pages.header;
  }
  bound.strings = column.physical_type() == parquet::Type::BYTE_ARRAY;
  bound.largest_value = std::max(pages.encoded, pages.dictionary);
  bound.all_values = kMax;
  if (const auto sizes = chunk.size_statistics();
      sizes != nullptr && sizes->unencoded_byte_array_data_bytes.has_value()) {
    bound.all_values =
        std::max<int64_t>(0, *sizes->unencoded_byte_array_data_bytes);
  } else if (!chunk.has_dictionary_page()) {
    bound.all_values = std::max<int64_t>(0, chunk.total_uncompressed_size());
  }
  return bound;
}

uint64_t DecodeBound::Bytes(int64_t rows) const {
  // Rows before a slice are decoded in batches of the same number of rows. The
  // last batch is still in memory when the next rows arrive.
  if (!strings) return cost.Bytes(2 * rows) + page_bytes;
  const auto count = static_cast<uint64_t>(rows);
  const uint64_t values = std::min(all_values, Product(count, largest_value));
  const uint64_t beside =
      cost.fixed + page_bytes + 2 * count * ChunkCost::kStringBytes;
  if (pages.dictionary == 0 && (rows == 1 || pages.data_pages == 1)) {
    // Arrow allocates room for the rest of the page, and copies the part that
    // it has filled, in addition to the values that it decoded before.
    return beside + 2 * pages.encoded + std::min(values, pages.encoded);
  }
  // Room for the rest of each page; it grows by doubling into new memory.
  return beside + 3 * (values + pages.encoded) + values;
}

}  // namespace millrace::storage
