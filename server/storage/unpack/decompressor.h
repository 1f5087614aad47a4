// Decompressor decompresses one stream in pieces of any size.
//
// It reads and writes no file (codec_unpacker.h does). new_decompressor.h makes
// one. Its memory is the window of the stream: at most 128 MiB of zstd, 16 MiB
// of Brotli, less than 4 MiB of the others.
//
// One thread at a time.
//
//   MR_ASSIGN_OR_RETURN(auto stream, NewDecompressor(Codec::kZstd));
//   MR_ASSIGN_OR_RETURN(Decompressor::Step step, stream->Run(input, output));

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_DECOMPRESSOR_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_DECOMPRESSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::storage {

enum class Codec { kZstd, kGzip, kBzip2, kBrotli, kSnappy };

class Decompressor {
 public:
  struct Step {
    size_t taken = 0;  // bytes of the input
    size_t made = 0;   // bytes of the output
    // The stream ends with the last byte that was taken, and all of its output
    // was made. Another stream may follow.
    bool ended = false;
  };

  virtual ~Decompressor() = default;

  // Neither taken nor made: more input is needed, or the stream has ended.
  // DataLoss: the stream is damaged; a part of a sentence.
  virtual absl::StatusOr<Step> Run(absl::Span<const uint8_t> input,
                                   absl::Span<uint8_t> output) = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_DECOMPRESSOR_H_
