// ChunkCost is what decoding rows of one column of a row group takes of memory,
// reckoned from the footer: decoded sizes, not those that the footer calls
// uncompressed, which are those of the encoding (a run of a million equal
// numbers has a few bytes).
//
// Where the footer knows it (numbers, lists, strings whose sizes are in it,
// strings that stay dictionaries) it is an upper bound; else an estimate that a
// BoundedPool holds the decoding to.
//
// Plain numbers.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_COST_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_COST_H_

#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <cstdint>

namespace millrace::storage {

struct ChunkCost {
  // Of a page: they are 1 MiB and some at most where writers keep to their
  // defaults.
  static constexpr uint64_t kPageBytes = 5 << 18;
  // Of a string, beside its bytes: where it ends and its levels, which grow by
  // doubling.
  static constexpr uint64_t kStringBytes = 3 * (4 + 2 + 1);

  // While it is decoded: pages, dictionaries, levels and buffers that grow; and
  // for each row.
  uint64_t fixed = 0;
  double per_row = 0;
  // Strings are read as a dictionary and indices into it.
  bool dictionary = false;
  // The chunk is read page by page instead of at once.
  bool stream = false;
  // What decompressing a page takes, in KiB. Columns are decoded one after the
  // other, so the largest of a slice's columns counts, and not their sum.
  uint16_t codec_kib = 0;
  // What a dictionary page of strings above kPageBytes takes beyond `fixed`, in
  // KiB: a lower bound. It counts when a row is refused, not in slices.
  uint32_t large_dictionary_kib = 0;

  // Without CodecBytes().
  uint64_t Bytes(int64_t rows) const {
    return fixed + static_cast<uint64_t>(per_row * static_cast<double>(rows));
  }
  uint64_t CodecBytes() const { return uint64_t{codec_kib} << 10; }
  // To decode one row, with a large dictionary page.
  uint64_t OneRowBytes() const {
    return Bytes(1) + (uint64_t{large_dictionary_kib} << 10);
  }
};

// Of a chunk with `rows` rows whose values become `widened` bytes each (0: they
// stay as Arrow has decoded them). `text`: the column may be read as a
// dictionary. Throws as Parquet does for a damaged footer.
ChunkCost CostOf(const parquet::ColumnChunkMetaData& chunk,
                 const parquet::ColumnDescriptor& column, int64_t rows,
                 uint64_t widened, bool text);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_COST_H_
