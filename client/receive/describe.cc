#include "client/receive/describe.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/receive/channel.h"
#include "client/receive/endpoint.h"
#include "client/receive/unary.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace millrace {
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

template <typename Response>
absl::StatusOr<Response> Parse(const std::string& bytes) {
  Response response;
  if (!response.ParseFromString(bytes)) {
    return absl::DataLossError(
        "it sent an answer that is no message of the data service");
  }
  return response;
}

template <typename Response>
absl::Status Check(const std::string& bytes) {
  return Parse<Response>(bytes).status();
}

template <typename Response>
absl::StatusOr<Response> AskOne(absl::string_view endpoint,
                                const std::string& method,
                                const google::protobuf::Message& request,
                                absl::Duration timeout) {
  MR_ASSIGN_OR_RETURN(std::vector<ServerChannel> servers, Connect(endpoint));
  const auto answers = AskServers(servers, "/millrace.v1.DataService/" + method,
                                  request.SerializeAsString(),
                                  {.timeout = timeout,
                                   .grace = absl::ZeroDuration(),
                                   .check = Check<Response>});
  for (const absl::StatusOr<std::string>& answer : answers) {
    if (answer.ok()) return Parse<Response>(*answer);
  }
  return NoAnswerError(endpoint, servers, answers);
}

// While a server explains another batch.
constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<DatasetInfo> DescribeDataset(absl::string_view endpoint,
                                            absl::string_view dataset,
                                            absl::Duration timeout) {
  DescribeDatasetRequest request;
  request.set_dataset(std::string(dataset));
  MR_ASSIGN_OR_RETURN(DescribeDatasetResponse response,
                      AskOne<DescribeDatasetResponse>(
                          endpoint, "DescribeDataset", request, timeout));
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
  const auto answers =
      AskServers(servers, "/millrace.v1.DataService/GetStatus",
                 GetStatusRequest().SerializeAsString(),
                 {.timeout = timeout, .check = Check<GetStatusResponse>});
  std::vector<ServerStatus> result;
  for (size_t i = 0; i < servers.size(); ++i) {
    const std::string& address = servers[i].address.text;
    if (answers[i].ok()) {
      result.push_back({address, Parse<GetStatusResponse>(*answers[i])});
    } else {
      result.push_back({address, answers[i].status()});
    }
  }
  return result;
}

absl::StatusOr<ExplainBatchResponse> ExplainBatch(
    absl::string_view endpoint, const ExplainBatchRequest& request,
    absl::Duration timeout) {
  MR_ASSIGN_OR_RETURN(std::vector<ServerChannel> servers, Connect(endpoint));
  const SteadyTime deadline = SteadyDeadline(timeout);
  const std::string bytes = request.SerializeAsString();
  std::vector<absl::StatusOr<std::string>> answers(
      servers.size(), absl::DeadlineExceededError("was not asked in time"));
  while (true) {
    bool busy = false;
    for (size_t i = 0; i < servers.size(); ++i) {
      const absl::Duration left =
          absl::FromChrono(deadline - SteadyTime::clock::now());
      if (left <= absl::ZeroDuration()) break;
      answers[i] = AskServers(
          {&servers[i], 1}, "/millrace.v1.DataService/ExplainBatch", bytes,
          {.timeout = left, .check = Check<ExplainBatchResponse>})[0];
      if (answers[i].ok()) return Parse<ExplainBatchResponse>(*answers[i]);
      busy = busy || absl::IsResourceExhausted(answers[i].status());
    }
    if (!busy || SteadyDeadline(kAskAgainAfter) >= deadline) {
      return NoAnswerError(endpoint, servers, answers);
    }
    absl::SleepFor(kAskAgainAfter);
  }
}

}  // namespace millrace
