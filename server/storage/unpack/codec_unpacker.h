// Unpackers of files that one compression program wrote: one stream, or several
// behind each other where the codec's own program reads them so (zstd, gzip,
// bzip2).
//
//   const Unpacker& zstd = CodecUnpacker(Codec::kZstd);

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_CODEC_UNPACKER_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_CODEC_UNPACKER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/storage/unpack/decompressor.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

const Unpacker& CodecUnpacker(Codec codec);

// Of "zstd", "zstd:7" (with a level), "gz", "bz2", "br", "snappy"; null:
// another text.
const Unpacker* CodecUnpackerNamed(absl::string_view compression);

// Decompresses the bytes from `offset` to `end` of a file. Errors as
// Unpacker::Unpack().
absl::Status DecompressRange(Codec codec, PackedFile& file, uint64_t offset,
                             uint64_t end, RawSink& sink);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_CODEC_UNPACKER_H_
