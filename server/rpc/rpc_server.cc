#include "server/rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/count_text.h"
#include "common/freed_memory.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/library_logs.h"
#include "proto/wire/version.h"
#include "server/file_limit.h"
#include "server/local/local_server.h"
#include "server/outside_budget.h"
#include "server/rpc/client_shares.h"
#include "server/rpc/connection_acceptor.h"
#include "server/rpc/data_service.h"
#include "server/rpc/listen_address.h"
#include "server/rpc/listen_sockets.h"
#include "server/rpc/memory_return.h"
#include "server/rpc/open_connections.h"
#include "server/rpc/peer_user.h"
#include "server/rpc/request_counts.h"
#include "server/rpc/server_probe.h"
#include "server/rpc/stalled_requests.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/watchdog.h"

namespace millrace::rpc {
namespace {

// Time for streams to end after they were told to, and for gRPC to close its
// connections.
constexpr absl::Duration kCloseTime = absl::Seconds(1);
// Memory that gRPC may use for connections and requests, part of
// kOutsideBudgetBytes (not for batches, which the budget counts). Above it,
// gRPC refuses calls and closes idle connections.
constexpr uint64_t kGrpcBytes = 128 << 20;
constexpr int kMaxMetadataBytes = 16 << 10;
// Max concurrent calls of one connection. A client queues further calls.
constexpr int kMaxCallsPerConnection = 1024;

// Number of checks for incomplete requests in one request timeout.
constexpr int kLooksPerTimeout = 6;
constexpr absl::Duration kMinLookInterval = absl::Seconds(1);
constexpr absl::Duration kMaxLookInterval = absl::Seconds(5);

// Why only_own_user refuses the connection; "": it does not.
std::string RefusalOfOtherUser(int connection) {
  const absl::StatusOr<uid_t> user = TcpPeerUser(connection);
  if (!user.ok()) return std::string(user.status().message());
  if (*user == geteuid()) return "";
  return absl::StrCat("it is of user ", *user, ", and this server serves user ",
                      geteuid(), " alone");
}

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(const Options& options, ListenAddress address,
                std::unique_ptr<local::LocalServer> local)
      : options_(options),
        address_(std::move(address)),
        local_(std::move(local)),
        counters_(std::make_shared<StatusCounters>()),
        live_payloads_(std::make_shared<LivePayloads>()),
        shares_(options.engine->batch_budget_bytes()),
        memory_({.expected_bytes =
                     options.budget->capacity() + server::kOutsideBudgetBytes,
                 .resident = &ResidentBytes,
                 .in_use = &AllocatedBytes,
                 .release =
                     [this](bool idle) {
                       if (idle) options_.engine->ReleaseIdleMemory();
                       ReturnFreedMemory();
                     }}),
        look_interval_(absl::ToChronoNanoseconds(
            std::clamp(options.request_timeout / kLooksPerTimeout,
                       kMinLookInterval, kMaxLookInterval))),
        stalled_(
            {.looks = 1 + static_cast<uint32_t>(
                              absl::Ceil(options.request_timeout,
                                         absl::FromChrono(look_interval_)) /
                              absl::FromChrono(look_interval_))}),
        registry_({.send_timeout = options.send_timeout,
                   .batch_timeout = options.batch_timeout,
                   .budget_for =
                       [engine = options.engine](uint64_t bytes) {
                         return engine->BudgetForBatches(bytes);
                       },
                   .budget = options.budget,
                   .shares = &shares_,
                   .tend =
                       [this](bool idle) {
                         memory_.Look(idle, std::chrono::steady_clock::now());
                         CloseStalled(std::chrono::steady_clock::now());
                         SayLinesLeftOut();
                       }},
                  counters_),
        service_({.engine = options.engine,
                  .budget = options.budget,
                  .max_streams = options.max_streams,
                  .registry = &registry_,
                  .shares = &shares_,
                  .counters = counters_,
                  .live_payloads = live_payloads_,
                  .local = local_.get()},
                 options.content_revision) {}

  ~RpcServerImpl() override {
    // The order of the end: no new work, no stream, no gRPC thread, and then
    // the members. Each thread is gone before what it uses.
    Shutdown(/*at_once=*/false);
    {
      MutexLock lock(accepting_mu_);
      // acceptor_ is destroyed before the registry, whose thread may call
      // CloseStalled() until then: it finds null and not a dead acceptor.
      accepting_ = nullptr;
    }
    server_.reset();
    // gRPC drops the last slices on its own threads. The slices are charged to
    // a budget that is destroyed after this server.
    MR_CHECK(live_payloads_->AwaitNone(absl::Seconds(30)))
        << "gRPC keeps payloads after its server has ended";
  }

  absl::Status Listen() {
    MR_ASSIGN_OR_RETURN(ListenSockets sockets, ListenOn(address_));
    // Both are process-wide settings of gRPC.
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();

    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(wire::kMaxRequestBytes));
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               kMaxCallsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.SetResourceQuota(
        grpc::ResourceQuota("millrace-server").Resize(kGrpcBytes));
    // A dead host is noticed after 10 s + 5 s.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // Clients ping every 10 s. With a larger minimum interval, gRPC would close
    // their connections as "too_many_pings".
    builder.AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
    // Only the reflection service uses the synchronous threads.
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(
          "gRPC did not start; see the log lines of gRPC above");
    }
    MR_RETURN_IF_ERROR(Accept(std::move(sockets)));
    if (grpc::HealthCheckServiceInterface* health =
            server_->GetHealthCheckService()) {
      health->SetServingStatus(v1::DataService::service_full_name(), true);
    }
    return absl::OkStatus();
  }

  int port() const override { return acceptor_->port(); }

  std::string address() const override {
    ListenAddress chosen = address_;
    chosen.port = port();
    return chosen.Text();
  }

  void Shutdown(bool at_once) override {
    if (server_ == nullptr || std::exchange(is_shut_down_, true)) return;
    // First: from some time on, the port does not answer on purpose.
    watchdog_.reset();
    service_.RefuseNewWork();
    if (grpc::HealthCheckServiceInterface* health =
            server_->GetHealthCheckService()) {
      health->Shutdown();
    }
    // Streams that end by themselves have delivered all their batches. Those
    // that are left after the grace time are told to end, and their clients
    // request the rest from other servers.
    if (!at_once) registry_.AwaitEmpty(options_.shutdown_grace);
    registry_.StopAll(
        absl::UnavailableError("the server is shutting down; request the other "
                               "steps from another server"));
    registry_.AwaitEmpty(kCloseTime);
    // gRPC keeps a connection open forever if it gets the connection after
    // Shutdown().
    if (acceptor_ != nullptr) acceptor_->Stop();
    // After the streams, because gRPC cancels every call that is left at this
    // deadline.
    server_->Shutdown(absl::ToChronoTime(absl::Now() + kCloseTime));
    server_->Wait();
    // After all calls, which lend shared memory through it.
    if (local_ != nullptr) local_->Stop();
  }

 private:
  // Called on the registry's thread, about every second.
  void CloseStalled(SteadyTime now) {
    if (now < next_look_) return;
    next_look_ = now + look_interval_;
    const std::vector<StalledRequests::Found> found =
        stalled_.Look(CountRequests(), registry_.CallsByPeer());
    if (found.empty()) return;
    std::unordered_set<std::string> peers;
    for (const StalledRequests::Found& one : found) {
      peers.insert(PlainPeer(one.peer));
    }
    uint64_t closed = 0;
    {
      MutexLock lock(accepting_mu_);
      // Under the lock, so that the acceptor cannot be destroyed during the
      // call.
      if (accepting_ != nullptr) closed = accepting_->Close(peers);
    }
    // All found connections belong to another server in this process.
    if (closed == 0) return;
    counters_->stalled_connections.fetch_add(closed);
    MR_LOG_EVERY(WARNING, absl::Seconds(1))
        << CountText(closed, "connection")
        << " closed because of incomplete requests; the first connection ("
        << PlainPeer(found.front().peer) << ") had "
        << CountText(found.front().requests, "request") << " incomplete after "
        << options_.request_timeout << " (--request_timeout); "
        << CountText(counters_->stalled_connections.load(), "connection")
        << " closed for this reason since the start";
  }

  absl::Status Accept(ListenSockets sockets) {
    ConnectionAcceptor::Options options;
    options.limits = DefaultConnectionLimits(
        server::FileLimit(), server::OpenFiles(),
        {.total = options_.max_connections,
         .per_peer = options_.max_connections_per_peer});
    if (const std::string warning = ConnectionsWarning(options.limits);
        !warning.empty()) {
      MR_LOG(WARNING) << warning;
    }
    options.refused = &counters_->refused_connections;
    if (options_.only_own_user) options.refusal = &RefusalOfOtherUser;
    options.take = [this](int listener, UniqueFd connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
          parameters;
      parameters.listener_fd = listener;
      parameters.fd = connection.Release();
      connections_->HandleNewConnection(&parameters);
    };
    MR_ASSIGN_OR_RETURN(acceptor_, ConnectionAcceptor::Start(
                                       std::move(sockets), std::move(options)));
    {
      MutexLock lock(accepting_mu_);
      accepting_ = acceptor_.get();
    }
    if (options_.on_unreachable == nullptr) return absl::OkStatus();
    watchdog_ = std::make_unique<WatchdogThread>(
        options_.watchdog,
        [this] {
          const ListenSockets& sockets = acceptor_->sockets();
          return NewServerProbe(
              sockets.own_address, sockets.own_address_bytes,
              [this](const sockaddr_storage& own) { acceptor_->LetIn(own); });
        },
        options_.on_unreachable);
    return absl::OkStatus();
  }

  const Options options_;
  const ListenAddress address_;
  const std::unique_ptr<local::LocalServer> local_;  // may be null
  const std::shared_ptr<StatusCounters> counters_;
  const std::shared_ptr<LivePayloads> live_payloads_;
  ClientShares shares_;
  // Used only by the registry's thread.
  MemoryReturn memory_;
  const std::chrono::nanoseconds look_interval_;
  StalledRequests stalled_;
  SteadyTime next_look_;

  // Members are destroyed from the last to the first: registry_ (with its
  // thread) after service_, server_ and acceptor_.
  Mutex accepting_mu_;
  // Null before the start and after the end of accepting.
  ConnectionAcceptor* accepting_ MR_GUARDED_BY(accepting_mu_) = nullptr;

  StreamRegistry registry_;
  DataServiceImpl service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<WatchdogThread> watchdog_;  // null: no watchdog
  bool is_shut_down_ = false;
};

// Null: no memory is shared with clients.
absl::StatusOr<std::unique_ptr<local::LocalServer>> StartLocalServer(
    const RpcServer::Options& options) {
  if (!options.local_socket.has_value()) return nullptr;
  auto local = local::LocalServer::Start(
      {.socket = *options.local_socket,
       .budget = options.budget,
       .batch_budget_bytes = options.engine->batch_budget_bytes(),
       .send_timeout = options.send_timeout});
  if (local.ok() || !options.local_socket->empty()) return local;
  // The default setting asks for shared memory, so this is no error.
  MR_LOG(WARNING) << "no shared memory for clients on this machine, which "
                     "receive their batches over the network: "
                  << local.status().message();
  return nullptr;
}

}  // namespace

absl::Status RpcServer::Options::Validate() const {
  if (engine == nullptr || budget == nullptr) {
    return absl::InvalidArgumentError("a server needs an engine and a budget");
  }
  if (max_streams == 0) {
    return absl::InvalidArgumentError("max_streams must be above 0");
  }
  if (send_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("send_timeout must be above 0");
  }
  if (batch_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("batch_timeout must be above 0");
  }
  if (request_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("request_timeout must be above 0");
  }
  if (shutdown_grace < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("shutdown_grace must not be negative");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const Options& options) {
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(ListenAddress address,
                      ParseListenAddress(options.listen));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<local::LocalServer> local,
                      StartLocalServer(options));
  auto server = std::make_unique<RpcServerImpl>(options, std::move(address),
                                                std::move(local));
  MR_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace millrace::rpc
