#include "proto/wire/frame_encoder.h"

#include "proto/wire/wire_format.h"

namespace millrace::wire {
namespace {

char* PutVarint(uint64_t value, char* out) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

// proto3 leaves out numbers that are 0.
char* PutNumber(uint32_t field, uint64_t value, char* out) {
  if (value == 0) return out;
  out = PutVarint(wire::Tag(field, wire::kVarint), out);
  return PutVarint(value, out);
}

}  // namespace

std::string EncodeFirstFramePrefix(const BatchHeader& header,
                                   uint64_t data_bytes,
                                   const FrameCompression& compression) {
  const size_t header_bytes = header.ByteSizeLong();
  std::string prefix;
  // One allocation: the header, its tag and length, and the numbers.
  prefix.reserve(header_bytes + 11 + kMaxFramePrefixBytes);
  char buffer[kMaxFramePrefixBytes];
  char* end = buffer;
  *end++ = static_cast<char>(wire::Tag(wire::kFrameHeader, wire::kLength));
  end = PutVarint(header_bytes, end);
  prefix.append(buffer, end - buffer);
  header.AppendToString(&prefix);
  prefix.append(buffer, EncodeFramePrefix(header.step(), 0, data_bytes, buffer,
                                          compression));
  return prefix;
}

size_t EncodeFramePrefix(uint64_t step, uint64_t offset, uint64_t data_bytes,
                         char* out, const FrameCompression& compression) {
  char* end = PutNumber(wire::kFrameStep, step, out);
  end = PutNumber(wire::kFrameOffset, offset, end);
  // Before `data`, although their numbers are higher: the payload comes last.
  end = PutNumber(wire::kFrameCompression, compression.method, end);
  end = PutNumber(wire::kFrameRawBytes, compression.raw_bytes, end);
  end = PutNumber(wire::kFrameDeltaStride, compression.delta_stride, end);
  // Written also when it is empty, which protobuf allows: one form for all.
  *end++ = static_cast<char>(wire::Tag(wire::kFrameData, wire::kLength));
  end = PutVarint(data_bytes, end);
  return end - out;
}

}  // namespace millrace::wire
