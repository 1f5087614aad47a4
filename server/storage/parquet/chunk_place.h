// The place of a column chunk in its file, from the footer.
//
// Pure.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_PLACE_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_PLACE_H_

#include <parquet/metadata.h>

#include <cstdint>

namespace millrace::storage {

struct ChunkPlace {
  int64_t begin = 0;  // in the file
  int64_t bytes = 0;  // may reach past the end of the file
};

// `file`: the footer that `chunk` is of. Throws as Parquet does where the place
// is an impossible one.
ChunkPlace PlaceOf(const parquet::ColumnChunkMetaData& chunk,
                   const parquet::FileMetaData& file);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_PLACE_H_
