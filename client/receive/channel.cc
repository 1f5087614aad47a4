#include "client/receive/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

namespace millrace::receive {

namespace {

// Max size of an HTTP/2 frame on a near link; gRPC's default of 16 KiB would
// cut every message into many pieces. Where gRPC measures, it sets the size
// itself.
constexpr int kHttp2FrameBytes = 1 << 20;

std::shared_ptr<grpc::Channel> MakeChannel(const Address& address, bool near) {
  grpc::ChannelArguments args;
  args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, address.authority);
  // Loaders do not share a connection: each reads its own.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Also the time limit of one attempt to connect.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  args.SetMaxReceiveMessageSize(-1);
  if (near) {
    args.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttp2FrameBytes);
  }
  return grpc::CreateCustomChannel(address.target,
                                   grpc::InsecureChannelCredentials(), args);
}

}  // namespace

bool IsNear(const Address& address, uint64_t batch_bytes) {
  return batch_bytes >= kLargeBatchBytes && address.round_trip.has_value() &&
         *address.round_trip < kNearRoundTrip;
}

bool IsFar(const Address& address, uint64_t batch_bytes) {
  return batch_bytes >= kLargeBatchBytes && address.round_trip.has_value() &&
         *address.round_trip >= kFarRoundTrip;
}

ServerChannel MakeServerChannel(Address address, uint64_t batch_bytes) {
  ServerChannel server;
  server.channel = MakeChannel(address, IsNear(address, batch_bytes));
  if (IsFar(address, batch_bytes)) server.second = MakeChannel(address, false);
  server.address = std::move(address);
  return server;
}

}  // namespace millrace::receive
