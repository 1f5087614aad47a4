#include "server/rpc/data_service.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/freed_memory.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "proto/byte_buffer.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"
#include "proto/retry_hint.h"
#include "proto/wire/message_digest.h"
#include "proto/wire/same_host.h"
#include "proto/wire/version.h"
#include "server/local/local_server.h"
#include "server/operators/operators.h"
#include "server/rpc/caller.h"
#include "server/rpc/request_check.h"
#include "server/rpc/stream_registry.h"

namespace millrace::rpc {
namespace {

// A write in flight for this long is blocked by its client or by the network.
constexpr absl::Duration kBlockedAfter = absl::Milliseconds(100);

// A GetBatches call that ends at its start.
class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  RefusedStream(const absl::Status& status,
                std::optional<uint64_t> answer_seed) {
    Finish(ToGrpcStatus(status, answer_seed));
  }
  void OnDone() override { delete this; }
};

// What a job of this source reads, for the log. Synthetic data have no name.
std::string DataText(const Source& source) {
  return source.has_synthetic() ? std::string("synthetic data")
                                : absl::StrCat("dataset ", source.dataset());
}

void FillSummaries(
    const pipeline::DatasetCatalog& catalog,
    google::protobuf::RepeatedPtrField<DatasetSummary>* summaries) {
  for (const auto& [name, source] : catalog) {
    DatasetSummary* summary = summaries->Add();
    summary->set_name(name);
    summary->set_format(source->info().format());
    summary->set_samples(source->info().samples());
    summary->set_fingerprint(source->info().fingerprint());
    // The message names files. File names are arbitrary bytes; proto strings
    // are not.
    summary->set_fault(
        CleanText(source->CheckFiles().message(), kMaxStatusMessageBytes));
  }
}

template <typename Message>
struct Request {
  Message message;
  uint64_t answer_seed = 0;
};

// Errors:
// DataLoss with ErrorDetail.request_damaged: the digest does not match, or it
// is missing although the client has announced it.
// InvalidArgument: the bytes are not a valid `Message`. Without a digest the
// reason may be damage; then the detail is set, too.
// Cancelled: the request is missing, or the client is gone and may have sent no
// request.
template <typename Message>
absl::StatusOr<std::shared_ptr<const Request<Message>>> Parse(
    const grpc::CallbackServerContext& context,
    const grpc::ByteBuffer& buffer) {
  if (context.IsCancelled() || !buffer.Valid()) {
    return absl::CancelledError("the client ended the call");
  }
  auto request = std::make_shared<Request<Message>>();
  const std::string bytes = ToString(buffer);
  request->answer_seed = wire::AnswerSeed(bytes);
  const wire::DigestCheck digest =
      wire::CheckDigest(bytes, /*seed=*/0,
                        context.client_metadata().find(wire::kDigestKey) !=
                            context.client_metadata().end());
  ErrorDetail damaged = MakeErrorDetail("rpc");
  damaged.set_request_damaged(true);
  if (digest == wire::DigestCheck::kWrong) {
    return WithErrorDetail(
        absl::DataLossError("the request was damaged on the way: its digest "
                            "does not match; retry the request"),
        damaged);
  }
  if (!request->message.ParseFromString(bytes)) {
    const absl::Status error = absl::InvalidArgumentError(absl::StrCat(
        "the request is not a valid ", Message::descriptor()->name(),
        ", or a string in it (for example the name of a dataset) is not UTF-8; "
        "see proto/data_service.proto"));
    return digest == wire::DigestCheck::kRight
               ? error
               : WithErrorDetail(error, damaged);
  }
  return request;
}

// Writes the answer and its digest to `response`, and announces the digest to
// the client.
void Write(const google::protobuf::Message& answer, uint64_t answer_seed,
           grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  context->AddInitialMetadata(wire::kDigestKey, wire::kDigestValue);
  *response =
      ToByteBuffer(wire::WithDigest(answer.SerializeAsString(), answer_seed));
}

}  // namespace

DataServiceImpl::DataServiceImpl(const StreamEnvironment& environment,
                                 uint32_t content_revision)
    : environment_(environment),
      content_revision_(content_revision),
      started_(std::chrono::steady_clock::now()) {}

DataServiceImpl::~DataServiceImpl() {
  std::thread explainer;
  {
    MutexLock lock(explain_mu_);
    explainer = std::move(explainer_);
  }
  if (explainer.joinable()) explainer.join();
}

grpc::ServerUnaryReactor* DataServiceImpl::ListDatasets(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const auto parsed = Parse<ListDatasetsRequest>(*context, *request);
  if (!parsed.ok()) {
    return Answer(context, "ListDatasets", std::nullopt, parsed.status());
  }
  ListDatasetsResponse list;
  FillSummaries(environment_.engine->catalog(), list.mutable_datasets());
  Write(list, (*parsed)->answer_seed, context, response);
  return Answer(context, "ListDatasets", (*parsed)->answer_seed,
                absl::OkStatus());
}

grpc::ServerUnaryReactor* DataServiceImpl::DescribeDataset(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const auto parsed = Parse<DescribeDatasetRequest>(*context, *request);
  if (!parsed.ok()) {
    return Answer(context, "DescribeDataset", std::nullopt, parsed.status());
  }
  const uint64_t answer_seed = (*parsed)->answer_seed;
  DescribeDatasetResponse described;
  const absl::Status status = Describe((*parsed)->message, &described);
  if (status.ok()) Write(described, answer_seed, context, response);
  return Answer(context, "DescribeDataset", answer_seed, status);
}

grpc::ServerUnaryReactor* DataServiceImpl::Open(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
    grpc::ByteBuffer* response) {
  const auto parsed = Parse<OpenRequest>(*context, *bytes);
  if (!parsed.ok()) {
    return Answer(context, "Open", std::nullopt, parsed.status());
  }
  const OpenRequest& request = (*parsed)->message;
  absl::Status refused = CheckRunning();
  if (refused.ok()) refused = CheckProtocolVersion(request.protocol_version());
  const auto caller = CallerOf(context->peer(), request.client_id());
  if (refused.ok()) refused = caller.status();
  if (!refused.ok()) {
    return Answer(context, "Open", (*parsed)->answer_seed, refused);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  // gRPC keeps `context` and `response` until Answer().
  environment_.engine->OpenAsync(
      request.spec(), *caller, [context] { return !context->IsCancelled(); },
      [this, reactor, context, request = *parsed, response](
          absl::StatusOr<std::shared_ptr<const pipeline::Pipeline>> pipeline) {
        absl::Status status = pipeline.status();
        OpenResponse plan;
        if (status.ok()) {
          status = DescribePlan(request->message, **pipeline, &plan);
        }
        if (status.ok()) Write(plan, request->answer_seed, context, response);
        Answer(reactor, context, "Open", request->answer_seed, status);
      });
  return reactor;
}

grpc::ServerUnaryReactor* DataServiceImpl::GetStatus(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const auto parsed = Parse<GetStatusRequest>(*context, *request);
  if (!parsed.ok()) {
    return Answer(context, "GetStatus", std::nullopt, parsed.status());
  }
  GetStatusResponse status;
  FillStatus(&status);
  Write(status, (*parsed)->answer_seed, context, response);
  return Answer(context, "GetStatus", (*parsed)->answer_seed, absl::OkStatus());
}

void DataServiceImpl::FillStatus(GetStatusResponse* response) const {
  const pipeline::Engine::Stats stats = environment_.engine->stats();
  const ByteBudget& budget = *environment_.budget;
  const StatusCounters& counters = *environment_.counters;
  response->set_version(kMillraceVersion);
  response->set_protocol_version(wire::kProtocolVersion);
  response->set_content_revision(content_revision_);
  response->set_decoder_digest(environment_.engine->decoder_digest());
  response->set_uptime_seconds(absl::ToDoubleSeconds(
      absl::FromChrono(std::chrono::steady_clock::now() - started_)));
  response->set_threads(stats.threads);
  response->set_read_threads(stats.read_threads);
  response->set_most_threads(stats.max_threads);
  response->set_most_read_threads(stats.max_read_threads);
  for (const ThreadChange& change : stats.thread_changes) {
    *response->add_thread_changes() = change;
  }
  response->set_memory_budget_bytes(budget.capacity());
  response->set_memory_used_bytes(budget.used());
  response->set_memory_peak_bytes(budget.peak());
  response->set_memory_resident_bytes(ResidentBytes());
  response->set_memory_reserved_bytes(stats.unused_bytes);
  response->set_waiting_for_memory(budget.waiting());
  response->set_active_streams(counters.active_streams);
  response->set_batches_sent(counters.batches_sent);
  response->set_samples_sent(counters.samples_sent);
  response->set_bytes_sent(counters.bytes_sent);
  response->set_bad_samples(stats.bad_samples);
  for (const BadSample& bad : stats.recent_bad_samples) {
    *response->add_recent_bad_samples() = bad;
  }
  response->set_cancelled_sends(counters.cancelled_sends);
  response->set_refused_connections(counters.refused_connections);
  response->set_stalled_connections(counters.stalled_connections);
  response->set_revoked_batches(counters.revoked_batches);
  response->set_refused_admissions(stats.refused_admissions);
  response->set_cached_pipelines(stats.cached_pipelines);
  response->set_cached_pipeline_bytes(stats.pipeline_bytes);
  for (const ClientShare& client : stats.clients) {
    *response->add_clients() = client;
  }
  for (const StageTime& stage : stats.stages) *response->add_stages() = stage;
  response->set_idle_thread_seconds(stats.idle_thread_seconds);
  response->set_blocked_sends(environment_.registry->Blocked(kBlockedAfter));
  for (const FullShare& share : environment_.registry->FullShares()) {
    *response->add_full_shares() = share;
  }
  FillSummaries(environment_.engine->catalog(), response->mutable_datasets());
  if (const operators::Operators* operators =
          environment_.engine->operators()) {
    for (const operators::Operators::Entry& entry : operators->List()) {
      LoadedOperator* loaded = response->add_operators();
      loaded->set_kind(entry.kind);
      *loaded->mutable_ref() = entry.ref;
      loaded->set_file(entry.file);
    }
  }
  response->set_shutting_down(shutting_down_);
  if (environment_.local != nullptr) {
    const local::LocalServer::Stats local = environment_.local->stats();
    response->set_same_host_links(local.links);
    response->set_same_host_bytes(local.bytes);
    response->set_same_host_batches_sent(local.batches_lent);
  }
}

grpc::ServerUnaryReactor* DataServiceImpl::ExplainBatch(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
    grpc::ByteBuffer* response) {
  const auto parsed = Parse<ExplainBatchRequest>(*context, *bytes);
  if (!parsed.ok()) {
    return Answer(context, "ExplainBatch", std::nullopt, parsed.status());
  }
  const ExplainBatchRequest& request = (*parsed)->message;
  absl::Status refused = CheckRunning();
  const auto caller = CallerOf(context->peer(), request.batch().client_id());
  if (refused.ok()) refused = caller.status();
  if (!refused.ok()) {
    return Answer(context, "ExplainBatch", (*parsed)->answer_seed, refused);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  FindPipeline(
      *caller, request.batch(), [context] { return !context->IsCancelled(); },
      [this, reactor, context, request = *parsed,
       response](absl::StatusOr<BatchStream::Steps> found) {
        const absl::Status refused =
            StartExplaining(reactor, context, request->message,
                            request->answer_seed, response, std::move(found));
        if (!refused.ok()) {
          Answer(reactor, context, "ExplainBatch", request->answer_seed,
                 refused);
        }
      });
  return reactor;
}

absl::Status DataServiceImpl::StartExplaining(
    grpc::ServerUnaryReactor* reactor, grpc::CallbackServerContext* context,
    const ExplainBatchRequest& request, uint64_t answer_seed,
    grpc::ByteBuffer* response, absl::StatusOr<BatchStream::Steps> found) {
  MR_RETURN_IF_ERROR(found.status());
  if (found->range.step_count != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("step_count is ", found->range.step_count,
                     "; a call explains one batch: set step_count to 1"));
  }
  MutexLock lock(explain_mu_);
  if (explaining_) {
    return WithRetryHint(absl::ResourceExhaustedError(
                             "the server explains another batch now; retry"),
                         "rpc");
  }
  // explaining_ is false, so the last task has passed its critical section and
  // only answers its call: the join is short. explainer_ is used under
  // explain_mu_ alone.
  if (explainer_.joinable()) explainer_.join();  // it has no task left
  auto explain = [this, reactor, context, response, answer_seed,
                  found = *std::move(found), first_row = request.first_row(),
                  row_count = request.row_count()] {
    // Storage may be slow. A client that is gone, or the end of the server,
    // does not wait for all rows.
    const auto stop = [this, context] {
      return context->IsCancelled()
                 ? absl::CancelledError("the client ended the call")
                 : CheckRunning();
    };
    ExplainBatchResponse explained;
    absl::Status status = found.pipeline->ExplainRows(
        found.range, first_row, row_count, &explained, stop);
    if (status.ok()) Write(explained, answer_seed, context, response);
    {
      // Before Answer(): a client that has its answer may request the next
      // batch at once and must not be told that another one is explained.
      MutexLock done(explain_mu_);
      explaining_ = false;
    }
    Answer(reactor, context, "ExplainBatch", answer_seed, status);
  };
  try {
    // The new thread may finish before this function does; it then waits for
    // explain_mu_ and resets explaining_ after it was set below.
    explainer_ = std::thread(std::move(explain));
  } catch (const std::system_error& error) {
    return WithRetryHint(
        absl::ResourceExhaustedError(absl::StrCat(
            "the system cannot start a thread to explain a batch (",
            error.what(), "); retry")),
        "rpc");
  }
  explaining_ = true;
  return absl::OkStatus();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* DataServiceImpl::GetBatches(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const auto parsed = Parse<GetBatchesRequest>(*context, *request);
  if (!parsed.ok()) {
    return new RefusedStream(
        Refused(context->peer(), "GetBatches", parsed.status()), std::nullopt);
  }
  const uint64_t answer_seed = (*parsed)->answer_seed;
  absl::StatusOr<BatchStream*> stream =
      OpenStream(context, (*parsed)->message, answer_seed);
  if (!stream.ok()) {
    return new RefusedStream(
        Refused(context->peer(), "GetBatches", stream.status()), answer_seed);
  }
  return *stream;
}

absl::Status DataServiceImpl::CheckRunning() const {
  if (!shutting_down_) return absl::OkStatus();
  return absl::UnavailableError(
      "the server is shutting down; request from another server, or retry "
      "later");
}

absl::Status DataServiceImpl::CheckRoomForStream() const {
  const uint64_t active = environment_.counters->active_streams.load();
  if (active < environment_.max_streams) return absl::OkStatus();
  return WithRetryHint(
      absl::ResourceExhaustedError(absl::StrCat(
          active,
          " GetBatches calls are in flight and the maximum of this server is ",
          environment_.max_streams,
          ": retry, or request from another server; a few long calls are "
          "better than many short calls")),
      "rpc");
}

absl::Status DataServiceImpl::Describe(
    const DescribeDatasetRequest& request,
    DescribeDatasetResponse* response) const {
  const pipeline::DatasetCatalog catalog = environment_.engine->catalog();
  const auto it = catalog.find(request.dataset());
  if (it == catalog.end()) {
    return absl::NotFoundError(absl::StrCat(
        "unknown dataset `", request.dataset(), "`; this server has: ",
        absl::StrJoin(catalog, ", ", [](std::string* out, const auto& entry) {
          out->append(entry.first);
        })));
  }
  *response->mutable_dataset() = it->second->info();
  response->mutable_dataset()->set_name(it->first);
  return absl::OkStatus();
}

absl::Status DataServiceImpl::DescribePlan(const OpenRequest& request,
                                           const pipeline::Pipeline& pipeline,
                                           OpenResponse* response) {
  const uint32_t world = request.world_size() == 0 ? 1 : request.world_size();
  MR_ASSIGN_OR_RETURN(const uint64_t max_payload_bytes,
                      pipeline.MaxPayloadBytes(world));
  if (const auto memory = pipeline.batch_memory(world); memory.ok()) {
    // All ranks of a job open the same pipeline, so the line is logged once a
    // second.
    MR_LOG_EVERY(INFO, absl::Seconds(1))
        << "job opened: "
        << DataText(pipeline.description().resolved_spec().sources(0))
        << ", world size " << world << ": " << memory->Sentence();
  }
  *response = pipeline.description();
  response->set_protocol_version(wire::kProtocolVersion);
  response->set_max_payload_bytes(max_payload_bytes);
  return absl::OkStatus();
}

void DataServiceImpl::FindPipeline(const pipeline::Caller& caller,
                                   const GetBatchesRequest& request,
                                   std::function<bool()> wanted,
                                   Found found) const {
  if (absl::Status checked = CheckProtocolVersion(request.protocol_version());
      !checked.ok()) {
    found(std::move(checked));
    return;
  }
  environment_.engine->OpenAsync(
      request.resolved_spec(), caller, std::move(wanted),
      [this, caller, request, found = std::move(found)](
          absl::StatusOr<std::shared_ptr<const pipeline::Pipeline>> pipeline) {
        if (!pipeline.ok()) {
          found(PlanRefusal(request, pipeline.status()));
          return;
        }
        if (absl::Status checked =
                CheckPlan(request, (*pipeline)->description());
            !checked.ok()) {
          found(std::move(checked));
          return;
        }
        BatchStream::Steps steps;
        steps.range.epoch = request.epoch();
        steps.range.first_step = request.first_step();
        steps.range.step_count = request.step_count();
        steps.range.rank = request.rank();
        steps.range.world_size = request.world_size();
        steps.range.with_payload_digest = request.with_payload_digest();
        steps.range.sharer =
            environment_.engine->SharerOf(**pipeline, caller, steps.range);
        steps.pipeline = *std::move(pipeline);
        found(std::move(steps));
      });
}

absl::StatusOr<BatchStream*> DataServiceImpl::OpenStream(
    grpc::CallbackServerContext* context, const GetBatchesRequest& request,
    uint64_t answer_seed) {
  MR_RETURN_IF_ERROR(CheckRunning());
  MR_RETURN_IF_ERROR(CheckRoomForStream());
  MR_ASSIGN_OR_RETURN(const pipeline::Caller caller,
                      CallerOf(context->peer(), request.client_id()));
  std::shared_ptr<batch::PayloadMemory> memory;
  if (request.has_same_host() && environment_.local != nullptr) {
    memory = environment_.local->BeginCall(request.same_host());
    if (memory == nullptr) {
      context->AddInitialMetadata(
          wire::kSameHostOfferKey,
          environment_.local->offer().SerializeAsString());
    }
  }
  auto* const stream =
      new BatchStream(environment_, context, caller, answer_seed);
  // Before the pipeline is found, the stream may be over and `context` gone.
  FindPipeline(
      caller, request, stream->IsWanted(),
      [this, peer = stream->peer(), begin = stream->Begin(),
       world_size = request.world_size(),
       memory = std::move(memory)](absl::StatusOr<BatchStream::Steps> found) {
        if (found.ok()) {
          found->range.memory = memory;
          const auto payload = found->pipeline->MaxPayloadBytes(world_size);
          // A batch takes its payload and the memory to build and send it.
          const auto memory_of_batch =
              found->pipeline->batch_memory(world_size);
          if (payload.ok()) {
            found->batch_bytes =
                memory_of_batch.ok() ? memory_of_batch->reserved() : *payload;
          } else {
            found = payload.status();
          }
        }
        if (!found.ok()) {
          found = Refused(peer, "GetBatches", found.status());
        }
        begin(std::move(found));
      });
  return stream;
}

void DataServiceImpl::Answer(grpc::ServerUnaryReactor* reactor,
                             grpc::CallbackServerContext* context,
                             absl::string_view method,
                             std::optional<uint64_t> answer_seed,
                             const absl::Status& status) {
  reactor->Finish(status.ok()
                      ? grpc::Status::OK
                      : ToGrpcStatus(Refused(context->peer(), method, status),
                                     answer_seed));
}

absl::Status DataServiceImpl::Refused(absl::string_view peer,
                                      absl::string_view method,
                                      const absl::Status& status) const {
  // Cancelled: the client itself has ended the call; nothing was refused.
  if (absl::IsCancelled(status)) return status;
  static internal_logging::EveryGate gate;
  if (gate.Pass(absl::Seconds(1))) {
    const uint64_t more = refusals_not_logged_.exchange(0);
    MR_LOG(WARNING) << method << " of " << peer << " refused: "
                    << CleanText(FormatError(status), kMaxStatusMessageBytes)
                    << (more == 0 ? ""
                                  : absl::StrCat(" (and ", more,
                                                 " earlier refusals)"));
  } else {
    refusals_not_logged_.fetch_add(1);
  }
  return WithErrorDetail(status, MakeErrorDetail("rpc"));
}

}  // namespace millrace::rpc
