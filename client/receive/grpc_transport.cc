#include "client/receive/grpc_transport.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/receive/address_watcher.h"
#include "client/receive/call_error.h"
#include "client/receive/receive_memory.h"
#include "client/receive/same_host_peer.h"
#include "client/receive/steady_deadline.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/byte_buffer.h"
#include "proto/wire/frame_view.h"
#include "proto/wire/message_digest.h"
#include "proto/wire/same_host.h"

namespace millrace::receive {
namespace {

using Clock = SteadyTime::clock;

// Max time between two OnTick(), as BatchTransport promises.
constexpr std::chrono::milliseconds kTick(100);
const char kMethod[] = "/millrace.v1.DataService/GetBatches";

// Threads: the owner calls Start() and Stop(), any thread Wake(). Everything
// else runs on the receive thread, including StartCall() and CancelCall(),
// which only events may call: so servers and calls need no lock. Events are
// called from that thread, and never from within a method that the events'
// owner calls.
class GrpcTransport final : public prefetch::BatchTransport {
 public:
  explicit GrpcTransport(GrpcTransportOptions options);
  ~GrpcTransport() override { Stop(); }

  void Start(prefetch::TransportEvents* events) override;
  void StartCall(prefetch::CallId id, prefetch::ServerId server,
                 const prefetch::AskedSteps& steps) override;
  void CancelCall(prefetch::CallId id) override;
  void Reconnect(prefetch::ServerId server) override;
  void Wake() override;
  void Stop() override;

 private:
  // An address of the endpoint. `ready` is the state that was last reported to
  // the events, or is about to be. `calls` alternates between the two
  // connections.
  struct Server {
    prefetch::ServerId id = 0;
    ServerChannel link;
    bool ready = false;
    std::shared_ptr<SameHostPeer> same_host;
    uint64_t calls = 0;
  };

  // One call of GetBatches. Exactly one operation is in flight at a time, with
  // the call itself as its tag. So the call lives until that operation has come
  // out of the queue: cancelling only marks it, and only Finished() erases it.
  //
  // kAsking (the request is being written) -> kReading, frame after frame,
  // until a read fails -> kFinishing (the status is awaited) -> erased.
  struct Call {
    enum class Doing { kAsking, kReading, kFinishing };
    prefetch::CallId id = 0;
    // True: no event of the call is delivered.
    bool cancelled = false;
    Doing doing = Doing::kAsking;
    // Why a frame was refused. Then the call is cancelled, further frames are
    // dropped, and OnCallDone() reports this status and not gRPC's.
    absl::Status damage;
    std::shared_ptr<SameHostPeer> same_host;
    // Null: the call uses no shared memory, or EndShared() was called.
    std::shared_ptr<local::ServerLink> shared;
    // Number of batches that were announced on this call. The server takes back
    // later ones.
    uint64_t announced = 0;
    // A frame has arrived, and the offer of shared memory was handled.
    bool answered = false;
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    size_t request_bytes = 0;
    uint64_t answer_seed = 0;
    grpc::ByteBuffer message;
    grpc::Status status;
  };

  // --- the receive thread ----------------------------------------------------
  void Loop();
  void Tick();
  void Advance(Call* call, bool ok);
  // Passes the message to the events, or marks the call as damaged and cancels
  // it.
  void Deliver(Call* call);
  // Same host: takes the offer of a first frame, and replaces the frame's bytes
  // by a payload in shared memory. DataLoss: the server's announcement is
  // wrong.
  absl::Status TakeShared(Call* call);
  // Tells the server how many announcements have arrived. Idempotent.
  static void EndShared(Call* call);
  void Finished(Call* call);
  void TakeAddresses();
  void ReportServers();

  const GrpcTransportOptions options_;
  // options_.request, with epoch and steps of the last call.
  GetBatchesRequest request_;
  prefetch::TransportEvents* events_ = nullptr;
  grpc::CompletionQueue queue_;
  std::optional<AddressWatcher> watcher_;

  // Used by the receive thread only, and by the constructor. frame_, slices_
  // and pieces_ belong to the current frame; they are members to reuse their
  // memory.
  std::vector<Server> servers_;
  prefetch::ServerId next_server_ = 1;
  bool report_ = false;  // report the servers at the next tick
  std::map<prefetch::CallId, std::unique_ptr<Call>> calls_;
  // Calls that were started at a server that is gone. They fail at the next
  // tick, because StartCall() itself must call no event.
  std::vector<prefetch::CallId> lost_;
  wire::FrameView frame_;
  std::vector<grpc::Slice> slices_;
  std::vector<absl::string_view> pieces_;

  // Set by Stop(), which then wakes the thread.
  std::atomic<bool> stopping_{false};
  // True: an alarm is set and has not come out of the queue, so further Wake()
  // calls need none. The order of this flag and of the data that a caller of
  // Wake() changed before must be total: a caller that finds true relies on a
  // tick after the flag is cleared. So accesses are sequentially consistent, as
  // are those of the atomics that the events read (other data are read under
  // locks).
  std::atomic<bool> woken_{false};
  // Guards the alarm against the shutdown of the queue. A leaf lock: only gRPC
  // is called under it.
  Mutex wake_mu_;
  // True: the queue is shut down or about to be, and no alarm may be set.
  bool closed_ MR_GUARDED_BY(wake_mu_) = false;
  grpc::Alarm alarm_ MR_GUARDED_BY(wake_mu_);
  std::thread thread_;
};

GrpcTransport::GrpcTransport(GrpcTransportOptions options)
    : options_(std::move(options)), request_(options_.request) {
  for (const ServerChannel& link : options_.servers) {
    servers_.push_back({next_server_++, link, false,
                        std::make_shared<SameHostPeer>(options_.same_host,
                                                       link.address.text)});
  }
}

void GrpcTransport::Start(prefetch::TransportEvents* events) {
  events_ = events;
  std::vector<Address> known;
  for (const ServerChannel& link : options_.servers) {
    known.push_back(link.address);
  }
  watcher_.emplace(options_.hosts, known, options_.resolve_interval,
                   [this] { Wake(); });
  thread_ = std::thread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "mr-receive");
}

void GrpcTransport::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  Wake();
  // The watcher may still call Wake(), which sees closed_. It ends after the
  // thread, which uses it.
  thread_.join();
  watcher_.reset();
}

void GrpcTransport::Wake() {
  if (woken_.exchange(true)) return;
  MutexLock lock(wake_mu_);
  // The queue is shut down under this lock.
  if (closed_) return;
  alarm_.Set(&queue_, Clock::now(), nullptr);
}

void GrpcTransport::Loop() {
  AdaptMallocThresholds();
  ReportServers();
  Clock::time_point next_tick = Clock::now();
  while (!stopping_) {
    void* tag = nullptr;
    bool ok = false;
    const auto event = queue_.AsyncNext(&tag, &ok, next_tick);
    bool tick = event == grpc::CompletionQueue::TIMEOUT;
    if (event == grpc::CompletionQueue::GOT_EVENT) {
      if (tag != nullptr) {
        Advance(static_cast<Call*>(tag), ok);
      } else {
        // Cleared before the tick, so that a Wake() during the tick sets a new
        // alarm.
        woken_ = false;
        tick = true;
      }
    }
    // While frames stream in, the wait never times out, so the clock decides.
    if (!tick && Clock::now() < next_tick) continue;
    Tick();
    next_tick = Clock::now() + kTick;
  }
  // The end. Every call is marked as cancelled, so no event is called. Each
  // call has one operation in flight, which cancelling ends, and Finished()
  // erases it.
  for (auto& [id, call] : calls_) {
    call->cancelled = true;
    call->context.TryCancel();
    EndShared(call.get());
  }
  while (!calls_.empty()) {
    void* tag = nullptr;
    bool ok = false;
    // False only after the shutdown below.
    if (!queue_.Next(&tag, &ok)) break;
    if (tag != nullptr) Advance(static_cast<Call*>(tag), ok);
  }
  {
    MutexLock lock(wake_mu_);
    // In one critical section with the shutdown: no alarm may be set for a
    // queue that is shut down.
    closed_ = true;
    queue_.Shutdown();
  }
  void* tag = nullptr;
  bool ok = false;
  // At most the alarm is left.
  while (queue_.Next(&tag, &ok)) {
  }
}

void GrpcTransport::Tick() {
  TakeAddresses();
  bool changed = std::exchange(report_, false);
  bool trouble = false;
  for (Server& server : servers_) {
    // `true` makes an idle channel connect.
    const bool ready =
        server.link.channel->GetState(true) == GRPC_CHANNEL_READY;
    if (server.link.second != nullptr) server.link.second->GetState(true);
    changed |= ready != server.ready;
    trouble |= server.ready && !ready;
    server.ready = ready;
    server.same_host->Poll();
  }
  if (trouble) watcher_->RefreshSoon();
  if (changed) ReportServers();
  // Taken out first: an event may start calls, which may add to lost_.
  for (const prefetch::CallId id : std::exchange(lost_, {})) {
    events_->OnCallDone(
        id, absl::UnavailableError("the server was removed from the endpoint"));
  }
  events_->OnTick();
}

void GrpcTransport::TakeAddresses() {
  std::optional<std::vector<Address>> addresses = watcher_->Take();
  if (!addresses.has_value()) return;
  std::vector<Server> servers;
  for (Address& address : *addresses) {
    const auto known = std::find_if(
        servers_.begin(), servers_.end(), [&address](const Server& server) {
          return server.link.address.target == address.target;
        });
    if (known != servers_.end()) {
      // With its id and its connections. Calls in flight continue, also those
      // of a server that leaves the list: they own the parts of it that they
      // use.
      servers.push_back(std::move(*known));
      servers_.erase(known);
    } else {
      MR_LOG(INFO) << "new server " << address.text;
      auto same_host =
          std::make_shared<SameHostPeer>(options_.same_host, address.text);
      servers.push_back(
          {next_server_++,
           MakeServerChannel(std::move(address), options_.batch_bytes), false,
           std::move(same_host)});
    }
  }
  const bool gone = !servers_.empty();
  for (const Server& server : servers_) {
    MR_LOG(INFO) << "server " << server.link.address.text
                 << " is no longer an address of the endpoint";
  }
  const bool fresh = std::any_of(servers.begin(), servers.end(),
                                 [](const Server& s) { return !s.ready; });
  servers_ = std::move(servers);
  if (gone || fresh) ReportServers();
}

void GrpcTransport::ReportServers() {
  std::vector<prefetch::ServerState> states;
  states.reserve(servers_.size());
  for (Server& server : servers_) {
    server.ready = server.link.channel->GetState(true) == GRPC_CHANNEL_READY;
    states.push_back({server.id, server.link.address.text, server.ready});
  }
  events_->OnServers(states);
}

void GrpcTransport::StartCall(prefetch::CallId id, prefetch::ServerId server,
                              const prefetch::AskedSteps& steps) {
  const auto known =
      std::find_if(servers_.begin(), servers_.end(),
                   [server](const Server& s) { return s.id == server; });
  // The events chose a server that is no longer listed.
  if (known == servers_.end()) {
    lost_.push_back(id);
    return;
  }
  request_.set_epoch(steps.epoch);
  request_.set_first_step(steps.first_step);
  request_.set_step_count(steps.step_count);
  auto call = std::make_unique<Call>();
  call->id = id;
  call->same_host = known->same_host;
  call->shared = call->same_host->Prepare(&request_, id);
  const std::string request = wire::WithDigest(request_.SerializeAsString());
  call->request_bytes = request.size();
  call->answer_seed = wire::AnswerSeed(request);
  call->context.AddMetadata(wire::kDigestKey, wire::kDigestValue);
  // Metadata, request and half-close leave together with the write.
  call->context.set_initial_metadata_corked(true);
  const bool second = ++known->calls % 2 == 0 &&
                      known->link.second != nullptr &&
                      known->link.second->GetState(false) == GRPC_CHANNEL_READY;
  grpc::GenericStub stub(second ? known->link.second : known->link.channel);
  call->stream = stub.PrepareCall(&call->context, kMethod, &queue_);
  call->stream->StartCall(nullptr);
  call->stream->Write(ToByteBuffer(request),
                      grpc::WriteOptions().set_last_message(), call.get());
  // The tag of the first operation is the object, which does not move.
  calls_.emplace(id, std::move(call));
}

void GrpcTransport::CancelCall(prefetch::CallId id) {
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second->cancelled) return;
  it->second->cancelled = true;
  // TryCancel() only asks gRPC: the operation in flight comes back through the
  // queue, and the call proceeds from there to Finished() without events.
  it->second->context.TryCancel();
  EndShared(it->second.get());
}

void GrpcTransport::Reconnect(prefetch::ServerId server) {
  const auto known =
      std::find_if(servers_.begin(), servers_.end(),
                   [server](const Server& s) { return s.id == server; });
  if (known == servers_.end()) return;
  // Calls in flight keep the old channel, and with it the old connection.
  known->link =
      MakeServerChannel(std::move(known->link.address), options_.batch_bytes);
  known->ready = false;
  report_ = true;
}

void GrpcTransport::Advance(Call* call, bool ok) {
  switch (call->doing) {
    case Call::Doing::kReading:
      // An event in Deliver() may cancel this call or others; none is erased
      // before its operation has come back.
      if (ok && !call->cancelled && call->damage.ok()) Deliver(call);
      [[fallthrough]];
    case Call::Doing::kAsking:
      if (ok) {
        call->doing = Call::Doing::kReading;
        call->stream->Read(&call->message, call);
      } else {
        call->doing = Call::Doing::kFinishing;
        call->stream->Finish(&call->status, call);
      }
      return;
    case Call::Doing::kFinishing:
      Finished(call);
      return;
  }
}

void GrpcTransport::Deliver(Call* call) {
  if (!call->message.Dump(&slices_).ok()) {
    call->damage = absl::DataLossError("a frame cannot be read");
  } else {
    pieces_.clear();
    for (const grpc::Slice& slice : slices_) {
      pieces_.emplace_back(reinterpret_cast<const char*>(slice.begin()),
                           slice.size());
    }
    call->damage = wire::ParseFrame(pieces_, &frame_);
    if (call->damage.ok()) call->damage = TakeShared(call);
  }
  if (call->damage.ok()) {
    events_->OnFrame(call->id, frame_);
    // Releases the memory of the frame now, not when the next frame arrives.
    frame_.hold = nullptr;
    slices_.clear();
    call->message.Clear();
    return;
  }
  call->context.TryCancel();
}

absl::Status GrpcTransport::TakeShared(Call* call) {
  if (!std::exchange(call->answered, true) && call->shared == nullptr) {
    const auto& metadata = call->context.GetServerInitialMetadata();
    const auto offer = metadata.find(wire::kSameHostOfferKey);
    std::optional<absl::string_view> bytes;
    if (offer != metadata.end()) {
      bytes = {offer->second.data(), offer->second.size()};
    }
    const absl::Status status = call->same_host->TakeOffer(bytes);
    if (!status.ok()) return status;
  }
  if (!frame_.has_header || !frame_.header.has_shared()) {
    return absl::OkStatus();
  }
  if (call->shared == nullptr || frame_.data_bytes > 0) {
    return absl::DataLossError(
        "a batch in shared memory came on a call without shared memory");
  }
  // Counted whether it is found or not: from here on the client is responsible
  // for it.
  ++call->announced;
  auto found =
      call->shared->Find(frame_.header.shared(), frame_.header.payload_bytes());
  if (!found.ok()) return found.status();
  frame_.header.clear_shared();
  // Bytes in shared memory are never compressed.
  frame_.compression = COMPRESSION_NONE;
  frame_.data.assign(1, found->data);
  frame_.data_bytes = found->data.size();
  frame_.hold = std::move(found->hold);
  return absl::OkStatus();
}

void GrpcTransport::EndShared(Call* call) {
  if (call->shared == nullptr) return;
  call->shared->EndCall(call->id, call->announced);
  call->shared = nullptr;
}

void GrpcTransport::Finished(Call* call) {
  const prefetch::CallId id = call->id;
  const bool cancelled = call->cancelled;
  absl::Status status = call->damage;
  if (status.ok() && !call->status.ok()) {
    status = CallError(call->status, call->request_bytes, call->answer_seed);
  }
  // The server may have announced batches that never arrived, and waits for
  // their release until EndShared() tells it. A call that ended OK has none.
  if (!status.ok()) EndShared(call);
  // Before the event, which may start other calls. The event's arguments are
  // copies.
  calls_.erase(id);
  if (cancelled) return;
  if (absl::IsUnavailable(status)) watcher_->RefreshSoon();
  events_->OnCallDone(id, std::move(status));
}

}  // namespace

std::unique_ptr<prefetch::BatchTransport> NewGrpcTransport(
    GrpcTransportOptions options) {
  return std::make_unique<GrpcTransport>(std::move(options));
}

}  // namespace millrace::receive
