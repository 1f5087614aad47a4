// Versions of the protocol, and the numbers that both sides of the wire must
// agree on. docs/protocol.md says what each version means.

#ifndef MILLRACE_PROTO_WIRE_VERSION_H_
#define MILLRACE_PROTO_WIRE_VERSION_H_

#include <cstdint>

namespace millrace::wire {

// What this code speaks. Raised when a peer of the version before could
// misunderstand a message; a field that may be ignored does not raise it.
inline constexpr uint32_t kProtocolVersion = 1;

// The oldest version that this code still understands.
inline constexpr uint32_t kMinProtocolVersion = 1;

// Every tensor of a payload starts at a multiple of this.
inline constexpr uint64_t kTensorAlignment = 64;

// Max payload bytes in one frame. Receivers take any size; senders use this one,
// and less on slow links (server/rpc/frame_size.h; the measurements are in
// docs/performance.md).
inline constexpr uint64_t kFrameDataBytes = 512 << 10;

// A header that is larger is refused: no batch needs it.
inline constexpr uint64_t kMaxBatchHeaderBytes = 1 << 20;

// A server refuses a larger request before it parses it: requests carry a spec
// of at most 64 KiB, and what is parsed may take many times its bytes.
inline constexpr uint64_t kMaxRequestBytes = 256 << 10;

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_VERSION_H_
