// Encodes the beginning of a Frame message: everything up to and including the
// tag and the length of `data`. The payload follows as slices of its own, so
// that it never passes through protobuf, and the bytes on the wire are still
// those of a plain protobuf message.
//
// It does not split a payload into frames and holds nothing. Thread-safe.
//
//   std::string prefix = EncodeFirstFramePrefix(header, data_bytes);
//   Send(prefix, payload.substr(0, data_bytes));
//   char plain[kMaxFramePrefixBytes];
//   size_t n = EncodeFramePrefix(step, offset, data_bytes, plain);
//   Send(string_view(plain, n), payload.substr(offset, data_bytes));

#ifndef MILLRACE_PROTO_WIRE_FRAME_ENCODER_H_
#define MILLRACE_PROTO_WIRE_FRAME_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::wire {

// Three fields, each a one-byte tag and a varint of at most ten bytes; with a
// compression three more, of two-byte tags and one, ten and five bytes.
inline constexpr size_t kMaxFramePrefixBytes = 33 + 22;

// How `data` is compressed (frame_compression.h); default: not at all.
struct FrameCompression {
  Compression method = COMPRESSION_NONE;
  uint64_t raw_bytes = 0;
  uint32_t delta_stride = 0;
};

// The first frame of a batch: carries its header; `step` is the header's and
// `offset` is 0.
std::string EncodeFirstFramePrefix(const BatchHeader& header,
                                   uint64_t data_bytes,
                                   const FrameCompression& compression = {});

// A later frame. Writes at most kMaxFramePrefixBytes to `out` and returns how
// many. Allocates nothing.
size_t EncodeFramePrefix(uint64_t step, uint64_t offset, uint64_t data_bytes,
                         char* out, const FrameCompression& compression = {});

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_FRAME_ENCODER_H_
