// MakeServerChannel() makes a gRPC channel to one server address with the
// settings that Millrace needs: one connection per channel, keepalive 10 s + 5
// s, quick reconnects, no retries by gRPC, messages of any size, no HTTP proxy
// (data servers are reached directly).
//
// The bytes that may be in flight depend on the link:
// - By default: as many as gRPC measures that the link holds, at least 4 MiB.
//   That keeps a link with a delay full. On a near link these bytes would wait
//   in the receiver's socket, and have left the caches when they are copied.
// - Near (a round trip below kNearRoundTrip) and large batches: gRPC does not
//   measure, and the window of a connection is 64 KiB plus the rest of the
//   messages that are being read. Bytes are copied while they are in the
//   caches: a third more bytes per second for two thirds of the processor time.
// - Far (a round trip above kFarRoundTrip) and large batches: two connections,
//   because TCP's buffers and gRPC's measurement bound each of them.
// docs/performance.md has the figures.
//
// Thread-safe functions.
//
//   ServerChannel server = MakeServerChannel(address, batch_bytes);

#ifndef MILLRACE_CLIENT_RECEIVE_CHANNEL_H_
#define MILLRACE_CLIENT_RECEIVE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "client/receive/endpoint.h"

namespace millrace::receive {

// The narrow window costs one round trip per frame: a few per cent at this one.
inline constexpr absl::Duration kNearRoundTrip = absl::Microseconds(100);

inline constexpr absl::Duration kFarRoundTrip = absl::Milliseconds(2);

// Many smaller batches fit into a normal window: more than the narrow one
// holds.
inline constexpr uint64_t kLargeBatchBytes = 256 << 10;

struct ServerChannel {
  Address address;
  std::shared_ptr<grpc::Channel> channel;
  // For a far server: takes every second call once it is connected. Else null.
  std::shared_ptr<grpc::Channel> second = nullptr;
};

// Whether batches of this size from this address use the settings of a near
// link. False for an address that was not measured.
bool IsNear(const Address& address, uint64_t batch_bytes);

// Whether they use two connections.
bool IsFar(const Address& address, uint64_t batch_bytes);

// Does not connect yet. `batch_bytes`: size of the largest batch on this
// channel; 0: no batches.
ServerChannel MakeServerChannel(Address address, uint64_t batch_bytes = 0);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_CHANNEL_H_
