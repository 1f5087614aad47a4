#include "client/receive/open_host_loader.h"

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/prefetch/prefetch_loader.h"
#include "client/receive/channel.h"
#include "client/receive/choose_plan.h"
#include "client/receive/endpoint.h"
#include "client/receive/grpc_transport.h"
#include "client/receive/round_trip.h"
#include "client/receive/steady_deadline.h"
#include "client/receive/unary_call.h"
#include "common/log_level.h"
#include "common/logging.h"
#include "common/monotonic_now.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/wire/version.h"

namespace millrace::receive {
namespace {

// Once a server has opened the plan, the others get this time to answer. The
// first call to a later server checks its plan.
constexpr absl::Duration kOpenGrace = absl::Milliseconds(250);

// Random id by which servers tell this loader from others on its machine.
std::string DrawClientId() {
  std::random_device random;
  std::string id;
  while (id.size() < 16) id.push_back(static_cast<char>(random()));
  return id;
}

// The first call to such a server leaves it out, with its own log line.
bool ServesOtherPlan(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

// Max wait for connections over near links: they take less than a millisecond,
// and a call before that would wait for the next tick.
constexpr std::chrono::milliseconds kConnectTime(50);
// Max wait for the second connection of far servers, which takes two round
// trips. Without it, both of the first calls, and so half of the window, would
// use one connection until they end.
constexpr std::chrono::milliseconds kFarConnectTime(250);

// Replaces the channels of near and far servers by channels for large batches.
void UseChannelsForBatches(uint64_t batch_bytes,
                           std::vector<ServerChannel>* servers) {
  if (batch_bytes < kLargeBatchBytes) return;
  std::vector<Address> addresses;
  for (const ServerChannel& server : *servers) {
    addresses.push_back(server.address);
  }
  MeasureRoundTrips(kRoundTripTimeout, absl::MakeSpan(addresses));
  std::vector<grpc::Channel*> connecting;
  const auto connect = [&connecting](grpc::Channel* channel) {
    channel->GetState(/*try_to_connect=*/true);
    connecting.push_back(channel);
  };
  std::chrono::milliseconds patience = kConnectTime;
  for (size_t i = 0; i < servers->size(); ++i) {
    ServerChannel& server = (*servers)[i];
    server.address = addresses[i];
    if (IsNear(server.address, batch_bytes)) {
      server = MakeServerChannel(server.address, batch_bytes);
      connect(server.channel.get());
    } else if (IsFar(server.address, batch_bytes)) {
      server.second = MakeServerChannel(server.address).channel;
      connect(server.second.get());
      patience = kFarConnectTime;
    }
  }
  const SteadyTime deadline = SteadyTime::clock::now() + patience;
  for (grpc::Channel* channel : connecting) {
    channel->WaitForConnected(deadline);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostLoader>> OpenHostLoader(
    const HostLoaderOptions& options, const CancelFlag* cancelled) {
  const absl::Time opened_at = MonotonicNow();
  // A program that embeds the client may have any value there.
  UseLogLevelOfEnvironment().IgnoreError();
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(std::vector<HostPort> hosts,
                      ParseEndpoint(options.endpoint));
  std::string trouble;
  MR_ASSIGN_OR_RETURN(std::vector<Address> addresses,
                      ResolveHosts(hosts, &trouble));
  if (!trouble.empty()) MR_LOG(WARNING) << trouble;
  std::vector<ServerChannel> servers;
  for (Address& address : addresses) {
    servers.push_back(MakeServerChannel(std::move(address)));
  }

  OpenRequest open;
  open.set_protocol_version(wire::kProtocolVersion);
  *open.mutable_spec() = options.spec;
  open.set_world_size(options.world_size);
  open.set_client_id(DrawClientId());
  std::vector<OpenResponse> plans(servers.size());
  const std::vector<absl::Status> results = AskServers(
      absl::MakeSpan(servers), "/millrace.v1.DataService/Open",
      open.SerializeAsString(),
      {.timeout = options.open_timeout,
       .silence = options.open_timeout / 2,
       .insist = true,
       .grace = kOpenGrace,
       .cancelled = cancelled},
      [&](size_t server, const std::string& answer) {
        return plans[server].ParseFromString(answer) ? absl::OkStatus()
                                                     : NoMessageError();
      });
  if (cancelled != nullptr && cancelled->load()) {
    return absl::CancelledError("opening was cancelled");
  }
  std::vector<PlanOffer> offers;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (!results[i].ok()) continue;
    offers.push_back({servers[i].address.text, std::move(plans[i])});
  }
  if (offers.empty()) {
    return NoAnswerError(options.endpoint, servers, results);
  }
  for (size_t i = 0; i < servers.size(); ++i) {
    if (results[i].ok() || ServesOtherPlan(results[i])) continue;
    MR_LOG(WARNING) << "server " << servers[i].address.text
                    << " did not open the plan: " << results[i].message();
  }
  MR_ASSIGN_OR_RETURN(OpenResponse plan,
                      ChoosePlan(offers, options.expected_plan_hash,
                                 options.expected_fingerprint));

  UseChannelsForBatches(plan.max_payload_bytes(), &servers);

  GrpcTransportOptions transport;
  transport.hosts = std::move(hosts);
  transport.servers = std::move(servers);
  transport.batch_bytes = plan.max_payload_bytes();
  transport.request.set_protocol_version(wire::kProtocolVersion);
  transport.request.set_client_id(open.client_id());
  *transport.request.mutable_resolved_spec() = plan.resolved_spec();
  transport.request.set_plan_hash(plan.plan_hash());
  transport.request.set_expected_fingerprint(plan.fingerprint());
  transport.request.set_decoder_digest(plan.decoder_digest());
  transport.request.set_rank(options.rank);
  transport.request.set_world_size(options.world_size);
  transport.request.set_with_payload_digest(options.verify_payload);
  transport.same_host = options.same_host;
  return prefetch::NewPrefetchLoader(options, std::move(plan),
                                     NewGrpcTransport(std::move(transport)),
                                     opened_at);
}

}  // namespace millrace::receive
