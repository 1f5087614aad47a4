// A gRPC channel to one server address, with the settings that Millrace needs:
// connection per channel, keepalive 10 s + 5 s, quick reconnects, no retries
// of gRPC's own, messages of any size, no HTTP proxy (data servers are reached
// directly).
//
// How much may be on its way at a time depends on the link:
// - Far: as much as gRPC measures that the link holds, which is what keeps one
//   with a delay full, and at least 4 MiB. On a near link that waits in the
//   receiver's socket, and has left the caches when it is copied.
// - Near (a round trip below kNearRoundTrip) and large batches: gRPC does not
//   measure, and a connection's window is 64 KiB and the rest of the messages
//   that are being read. What arrives is copied while it is in the caches: a
//   third more bytes a second for two thirds of the processor time.
// Large batches of a server that is farther away than kFarRoundTrip come over
// two connections: TCP's buffers, and what gRPC measures, bound each of them.
// docs/performance.md has the figures.

#ifndef MILLRACE_CLIENT_RECEIVE_CHANNEL_H_
#define MILLRACE_CLIENT_RECEIVE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "client/receive/endpoint.h"

namespace millrace {

// The narrow window costs one round trip a frame: a few percent at this one.
inline constexpr absl::Duration kNearRoundTrip = absl::Microseconds(100);

inline constexpr absl::Duration kFarRoundTrip = absl::Milliseconds(2);

// Smaller batches are messages of which many fit into a window: more than the
// narrow one holds.
inline constexpr uint64_t kLargeBatchBytes = 256 << 10;

struct ServerChannel {
  Address address;
  std::shared_ptr<grpc::Channel> channel;
  // Of a far server: takes every second call once it is connected. Else null.
  std::shared_ptr<grpc::Channel> second = nullptr;
};

// Whether batches of so many bytes come from that address over a near link. No
// for an address that was not measured.
bool IsNear(const Address& address, uint64_t batch_bytes);

// The same of two connections.
bool IsFar(const Address& address, uint64_t batch_bytes);

// Does not connect yet. `batch_bytes`: of the largest batch that is asked for
// through it; 0 for other calls.
ServerChannel MakeServerChannel(Address address, uint64_t batch_bytes = 0);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_CHANNEL_H_
