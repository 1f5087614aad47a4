// Between gRPC's byte buffers and strings, for messages that are small. Frames
// do not come this way.
//
// Thread-safe functions.

#ifndef MILLRACE_PROTO_BYTE_BUFFER_H_
#define MILLRACE_PROTO_BYTE_BUFFER_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

namespace millrace {

inline grpc::ByteBuffer ToByteBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// Empty for a buffer without bytes, and for one that cannot be decompressed.
inline std::string ToString(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace millrace

#endif  // MILLRACE_PROTO_BYTE_BUFFER_H_
