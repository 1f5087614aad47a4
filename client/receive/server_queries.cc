#include "client/receive/server_queries.h"

#include <utility>

#include "absl/time/clock.h"
#include "client/prefetch/retry_schedules.h"
#include "client/receive/channel.h"
#include "client/receive/endpoint.h"
#include "client/receive/unary_call.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/wire/version.h"

namespace millrace::receive {
namespace {

absl::StatusOr<std::vector<ServerChannel>> Connect(absl::string_view endpoint) {
  MR_ASSIGN_OR_RETURN(std::vector<HostPort> hosts, ParseEndpoint(endpoint));
  MR_ASSIGN_OR_RETURN(std::vector<Address> addresses, ResolveHosts(hosts));
  std::vector<ServerChannel> servers;
  for (Address& address : addresses) {
    servers.push_back(MakeServerChannel(std::move(address)));
  }
  return servers;
}

// As AskServers(); the answer of servers[i] is in (*answers)[i].
template <typename Response>
std::vector<absl::Status> Ask(absl::Span<ServerChannel> servers,
                              const std::string& method,
                              const google::protobuf::Message& request,
                              const UnaryOptions& options,
                              std::vector<Response>* answers) {
  answers->resize(servers.size());
  return AskServers(servers, "/millrace.v1.DataService/" + method,
                    request.SerializeAsString(), options,
                    [answers](size_t server, const std::string& bytes) {
                      return (*answers)[server].ParseFromString(bytes)
                                 ? absl::OkStatus()
                                 : NoMessageError();
                    });
}

template <typename Response>
absl::StatusOr<Response> AskOne(absl::string_view endpoint,
                                const std::string& method,
                                const google::protobuf::Message& request,
                                absl::Duration timeout,
                                const CancelFlag* cancelled = nullptr) {
  MR_ASSIGN_OR_RETURN(std::vector<ServerChannel> servers, Connect(endpoint));
  std::vector<Response> answers;
  const std::vector<absl::Status> results =
      Ask(absl::MakeSpan(servers), method, request,
          {.timeout = timeout,
           .silence = timeout / 2,
           .insist = true,
           .grace = absl::ZeroDuration(),
           .cancelled = cancelled},
          &answers);
  for (size_t i = 0; i < servers.size(); ++i) {
    if (results[i].ok()) return std::move(answers[i]);
  }
  return NoAnswerError(endpoint, servers, results);
}

// Time between two looks at a CancelFlag during a pause.
constexpr absl::Duration kLookInterval = absl::Milliseconds(50);

bool IsSet(const CancelFlag* cancelled) {
  return cancelled != nullptr && cancelled->load();
}

void Pause(absl::Duration pause, const CancelFlag* cancelled) {
  for (absl::Duration left = pause;
       left > absl::ZeroDuration() && !IsSet(cancelled);
       left -= kLookInterval) {
    absl::SleepFor(kLookInterval);
  }
}

}  // namespace

absl::StatusOr<DatasetInfo> DescribeDataset(absl::string_view endpoint,
                                            absl::string_view dataset,
                                            absl::Duration timeout,
                                            const CancelFlag* cancelled) {
  DescribeDatasetRequest request;
  request.set_dataset(std::string(dataset));
  MR_ASSIGN_OR_RETURN(
      DescribeDatasetResponse response,
      AskOne<DescribeDatasetResponse>(endpoint, "DescribeDataset", request,
                                      timeout, cancelled));
  return std::move(*response.mutable_dataset());
}

absl::StatusOr<std::vector<DatasetSummary>> ListDatasets(
    absl::string_view endpoint, absl::Duration timeout) {
  MR_ASSIGN_OR_RETURN(
      ListDatasetsResponse response,
      AskOne<ListDatasetsResponse>(endpoint, "ListDatasets",
                                   ListDatasetsRequest(), timeout));
  return std::vector<DatasetSummary>(response.datasets().begin(),
                                     response.datasets().end());
}

absl::StatusOr<std::vector<ServerStatus>> GetServerStatus(
    absl::string_view endpoint, absl::Duration timeout) {
  MR_ASSIGN_OR_RETURN(std::vector<ServerChannel> servers, Connect(endpoint));
  std::vector<GetStatusResponse> answers;
  const std::vector<absl::Status> results =
      Ask(absl::MakeSpan(servers), "GetStatus", GetStatusRequest(),
          {.timeout = timeout, .silence = timeout / 2}, &answers);
  std::vector<ServerStatus> statuses;
  for (size_t i = 0; i < servers.size(); ++i) {
    absl::StatusOr<GetStatusResponse> status = std::move(answers[i]);
    if (!results[i].ok()) status = results[i];
    statuses.push_back({servers[i].address.text, std::move(status)});
  }
  return statuses;
}

absl::StatusOr<ExplainBatchResponse> ExplainBatch(
    absl::string_view endpoint, const ExplainBatchRequest& request,
    absl::Duration timeout, const CancelFlag* cancelled) {
  MR_ASSIGN_OR_RETURN(std::vector<ServerChannel> servers, Connect(endpoint));
  const SteadyTime deadline = SteadyDeadline(timeout);
  std::vector<absl::Status> results(
      servers.size(),
      absl::DeadlineExceededError("the request was not sent in time"));
  while (true) {
    bool busy = false;
    for (size_t i = 0; i < servers.size(); ++i) {
      const absl::Duration left =
          absl::FromChrono(deadline - SteadyTime::clock::now());
      if (left <= absl::ZeroDuration()) break;
      std::vector<ExplainBatchResponse> answer;
      results[i] =
          Ask(absl::MakeSpan(&servers[i], 1), "ExplainBatch", request,
              {.timeout = left, .silence = left / 2, .cancelled = cancelled},
              &answer)[0];
      if (results[i].ok()) return std::move(answer[0]);
      if (IsSet(cancelled)) break;
      busy = busy || absl::IsResourceExhausted(results[i]);
    }
    if (IsSet(cancelled)) {
      return absl::CancelledError("the request was cancelled");
    }
    const absl::Duration delay = prefetch::kQuestionRetry.Delay();
    if (!busy || SteadyDeadline(delay) >= deadline) {
      return NoAnswerError(endpoint, servers, results);
    }
    Pause(delay, cancelled);
  }
}

absl::StatusOr<ExplainBatchResponse> ExplainWholeBatch(
    absl::string_view endpoint, const OpenResponse& plan, Position position,
    uint32_t rank, uint32_t world_size, absl::Duration timeout,
    const CancelFlag* cancelled) {
  const SteadyTime deadline = SteadyDeadline(timeout);
  ExplainBatchRequest request;
  GetBatchesRequest& batch = *request.mutable_batch();
  batch.set_protocol_version(wire::kProtocolVersion);
  *batch.mutable_resolved_spec() = plan.resolved_spec();
  batch.set_plan_hash(plan.plan_hash());
  batch.set_expected_fingerprint(plan.fingerprint());
  batch.set_decoder_digest(plan.decoder_digest());
  batch.set_epoch(position.epoch);
  batch.set_first_step(position.step);
  batch.set_step_count(1);
  batch.set_rank(rank);
  batch.set_world_size(world_size);
  ExplainBatchResponse all;
  // A first answer says how many rows there are; a batch has no more than that.
  all.set_rows(plan.resolved_spec().batch_size() / world_size);
  while (static_cast<uint64_t>(all.explained_size()) < all.rows()) {
    request.set_first_row(all.explained_size());
    request.set_row_count(all.rows() - request.first_row());
    MR_ASSIGN_OR_RETURN(
        const ExplainBatchResponse part,
        ExplainBatch(endpoint, request,
                     absl::FromChrono(deadline - SteadyTime::clock::now()),
                     cancelled));
    all.set_rows(part.rows());
    if (part.explained().empty() && part.rows() > 0) {
      return absl::DataLossError("the server's answer contains no row");
    }
    if (all.explained().empty()) *all.mutable_drawn() = part.drawn();
    all.mutable_explained()->MergeFrom(part.explained());
  }
  return all;
}

}  // namespace millrace::receive
