// Replaces the decompressors of Arrow in a build with --define=parquet=off.

#include "server/storage/parquet/arrow_decompressor.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {

absl::StatusOr<std::unique_ptr<Decompressor>> NewArrowDecompressor(
    Codec codec) {
  static_cast<void>(codec);
  return absl::UnimplementedError(
      "this build has no Parquet, and so no bzip2 and Brotli: compress the "
      "files with zstd or gzip, or build without --define=parquet=off");
}

}  // namespace millrace::storage
