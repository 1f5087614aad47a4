// Where the chunks of a dataset lie in the file, found in one pass.
//
// H5Dget_chunk_info() and H5Dget_chunk_info_by_coord() of libhdf5 1.10 iterate
// over the index from its beginning for each chunk: 16 ms for one of 200,000
// chunks. H5Ddebug() prints all chunks in one pass (0.1 s for the same), to the
// standard output, which is a file in memory here.
//
// One thread, which owns the standard output.
//
//   MR_RETURN_IF_ERROR(CaptureStandardOutput());
//   MR_ASSIGN_OR_RETURN(auto offsets, ChunkOffsets(set, {100, 400}, 25, 0));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_CHUNK_OFFSETS_H_
#define MILLRACE_SERVER_STORAGE_HDF5_CHUNK_OFFSETS_H_

#include <hdf5/serial/hdf5.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::storage {

// A chunk without a place in the file.
inline constexpr uint64_t kNoChunk = UINT64_MAX;
// A dataset with more chunks is not read by offset.
inline constexpr uint64_t kMaxChunks = uint64_t{1} << 24;

// Replaces the standard output of the process. Internal: no system call gives
// the memory.
absl::Status CaptureStandardOutput();

struct ChunkSize {
  uint64_t rows = 0;  // whole ones
  uint64_t bytes = 0;
};

// Offsets of the `chunks` chunks of `set`, which have no filter, in a file with
// `user_block` bytes before the superblock. kNoChunk: it
// was never written. DataLoss: the index is damaged; a part of a sentence.
absl::StatusOr<std::vector<uint64_t>> ChunkOffsets(hid_t set, ChunkSize size,
                                                   uint64_t chunks,
                                                   uint64_t user_block);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_CHUNK_OFFSETS_H_
