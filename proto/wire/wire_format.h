// Numbers of the protobuf wire format that the encoder and the parser of
// frames share. A test compares the field numbers with data_service.proto.

#ifndef MILLRACE_PROTO_WIRE_WIRE_FORMAT_H_
#define MILLRACE_PROTO_WIRE_WIRE_FORMAT_H_

#include <cstdint>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::wire {

// Wire types, https://protobuf.dev/programming-guides/encoding/
enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr uint32_t Tag(uint32_t field, WireType type) {
  return field << 3 | type;
}

inline constexpr uint32_t kFrameHeader = Frame::kHeaderFieldNumber;
inline constexpr uint32_t kFrameStep = Frame::kStepFieldNumber;
inline constexpr uint32_t kFrameOffset = Frame::kOffsetFieldNumber;
inline constexpr uint32_t kFrameData = Frame::kDataFieldNumber;
inline constexpr uint32_t kFrameCompression = Frame::kCompressionFieldNumber;
inline constexpr uint32_t kFrameRawBytes = Frame::kRawBytesFieldNumber;
inline constexpr uint32_t kFrameDeltaStride = Frame::kDeltaStrideFieldNumber;
static_assert(kFrameData < 16, "the encoder writes one-byte tags");

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_WIRE_FORMAT_H_
