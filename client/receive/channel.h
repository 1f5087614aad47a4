// A gRPC channel to one server address, with the settings that Millrace needs:
// connection per channel, keepalive 10 s + 5 s, quick reconnects, no retries
// of gRPC's own, messages of any size, no HTTP proxy (data servers are reached
// directly).

#ifndef MILLRACE_CLIENT_RECEIVE_CHANNEL_H_
#define MILLRACE_CLIENT_RECEIVE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>

#include "client/receive/endpoint.h"

namespace millrace {

struct ServerChannel {
  Address address;
  std::shared_ptr<grpc::Channel> channel;
};

// Does not connect yet.
ServerChannel MakeServerChannel(Address address);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_CHANNEL_H_
