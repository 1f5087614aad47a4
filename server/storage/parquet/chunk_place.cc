#include "server/storage/parquet/chunk_place.h"

#include <parquet/exception.h>

#include <algorithm>

namespace millrace::storage {
namespace {

// Old writers do not include the header of a dictionary page in the size of a
// chunk (PARQUET-816).
constexpr int64_t kForgottenBytes = 100;

}  // namespace

ChunkPlace PlaceOf(const parquet::ColumnChunkMetaData& chunk,
                   const parquet::FileMetaData& file) {
  ChunkPlace place = {.begin = chunk.data_page_offset(),
                      .bytes = chunk.total_compressed_size()};
  if (chunk.has_dictionary_page() && chunk.dictionary_page_offset() > 0) {
    place.begin = std::min(place.begin, chunk.dictionary_page_offset());
  }
  if (place.begin < 0 || place.bytes < 0 ||
      place.bytes > INT64_MAX - place.begin - kForgottenBytes) {
    throw parquet::ParquetException("a column chunk has an impossible place");
  }
  if (file.writer_version().VersionLt(
          parquet::ApplicationVersion::PARQUET_816_FIXED_VERSION())) {
    place.bytes += kForgottenBytes;
  }
  return place;
}

}  // namespace millrace::storage
