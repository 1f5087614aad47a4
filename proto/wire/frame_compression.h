// Compresses the bytes of a frame with Zstandard, for links that are slower
// than the processors, and decompresses them directly into the payload.
//
// Pixels are first replaced by their differences to the pixel before (the "Sub"
// filter of PNG, https://www.w3.org/TR/png/#9Filters): photographs then take
// half of their bytes instead of three quarters.
//
// Thread-safe; contexts and scratch are kept a thread (some 2 MiB once used).
//
//   std::optional<CompressedFrame> compressed =
//       CompressFrame(bytes, /*delta_stride=*/3);
//   if (compressed.has_value()) { ... compressed->data instead of `bytes` ... }

#ifndef MILLRACE_PROTO_WIRE_FRAME_COMPRESSION_H_
#define MILLRACE_PROTO_WIRE_FRAME_COMPRESSION_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::wire {

// Larger frames are sent as they are. Senders use kFrameDataBytes
// (proto/wire/version.h).
inline constexpr uint64_t kMaxCompressedFrameBytes = 4 << 20;

struct CompressedFrame {
  absl::string_view data;  // this thread's, until its next call
  uint32_t delta_stride = 0;
};

// With delta_stride 0 the bytes are compressed as they are. None: compression
// saves less than a twentieth, or there is no memory for it; send the bytes as
// they are.
std::optional<CompressedFrame> CompressFrame(absl::Span<const uint8_t> bytes,
                                             uint32_t delta_stride);

// The reverse; `compression` is the number that the frame gives. `pieces` are
// foreign bytes and must decompress to exactly out.size() bytes. DataLoss: they
// do not; `out` is then unspecified.
absl::Status DecompressFrame(absl::Span<const absl::string_view> pieces,
                             int compression, uint32_t delta_stride,
                             absl::Span<uint8_t> out);

// The stride that suits samples of this shape and type: interleaved channels of
// one byte, else 0.
uint32_t DeltaStrideFor(DType dtype, absl::Span<const int64_t> sample_shape);

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_FRAME_COMPRESSION_H_
