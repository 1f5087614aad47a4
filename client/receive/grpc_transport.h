// GrpcTransport is the BatchTransport over gRPC: one channel an address, calls
// of GetBatches whose frames are parsed in place, in gRPC's slices, one
// completion queue, and one thread that polls it and runs all events, including
// the copy of the payload. A second thread looks names up again.

#ifndef MILLRACE_CLIENT_RECEIVE_GRPC_TRANSPORT_H_
#define MILLRACE_CLIENT_RECEIVE_GRPC_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"
#include "client/receive/channel.h"
#include "client/receive/endpoint.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct GrpcTransportOptions {
  std::vector<HostPort> hosts;
  // Channels that exist already: those of Open().
  std::vector<ServerChannel> servers;
  // What every call says; epoch and steps are filled in.
  GetBatchesRequest request;
  absl::Duration resolve_interval = absl::Seconds(30);
  // Of the largest batch; how channels to new servers are made.
  uint64_t batch_bytes = 0;
  SameHost same_host = SameHost::kOff;
};

std::unique_ptr<BatchTransport> NewGrpcTransport(GrpcTransportOptions options);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_GRPC_TRANSPORT_H_
