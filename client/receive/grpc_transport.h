// NewGrpcTransport() makes the BatchTransport over gRPC: one channel for each
// address, and calls of GetBatches whose frames are parsed in place, in gRPC's
// slices.
//
// What it is not: it retries nothing and chooses no server (BatchFetcher).
//
// Threads: one thread polls the completion queue and runs all events, including
// the copies of the payload. A second thread resolves names again.
//
//   auto transport = NewGrpcTransport(std::move(options));
//   transport->Start(&events);

#ifndef MILLRACE_CLIENT_RECEIVE_GRPC_TRANSPORT_H_
#define MILLRACE_CLIENT_RECEIVE_GRPC_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "client/prefetch/loader_options.h"
#include "client/prefetch/transport.h"
#include "client/receive/channel.h"
#include "client/receive/endpoint.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::receive {

struct GrpcTransportOptions {
  std::vector<HostPort> hosts;
  // Existing channels: those of Open().
  std::vector<ServerChannel> servers;
  // The request of every call; the transport sets epoch and steps.
  GetBatchesRequest request;
  absl::Duration resolve_interval = absl::Seconds(30);
  // Size of the largest batch, for channels to new servers.
  uint64_t batch_bytes = 0;
  SameHost same_host = SameHost::kOff;
};

std::unique_ptr<prefetch::BatchTransport> NewGrpcTransport(
    GrpcTransportOptions options);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_GRPC_TRANSPORT_H_
