// Makes the decompressor of a codec.
//
//   MR_ASSIGN_OR_RETURN(auto stream, NewDecompressor(Codec::kZstd));

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_NEW_DECOMPRESSOR_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_NEW_DECOMPRESSOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {

// Unimplemented: this build does not have the library.
absl::StatusOr<std::unique_ptr<Decompressor>> NewDecompressor(Codec codec);

// "zstd", as MDS and file names have it.
absl::string_view CodecName(Codec codec);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_NEW_DECOMPRESSOR_H_
