// Decompressors of the codecs that Arrow brings and nothing else here links:
// bzip2 and Brotli.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_ARROW_DECOMPRESSOR_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_ARROW_DECOMPRESSOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {

// Unimplemented: the build has no Arrow (--define=parquet=off), or Arrow does
// not have the codec.
absl::StatusOr<std::unique_ptr<Decompressor>> NewArrowDecompressor(Codec codec);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_ARROW_DECOMPRESSOR_H_
