// Requests to data servers outside of the data path: the list of datasets, the
// description of a dataset, the state of a server, the explanation of a batch.
//
// Blocking; any thread. Errors name the endpoint and each server that did not
// answer.
//
//   MR_ASSIGN_OR_RETURN(DatasetInfo info,
//                       DescribeDataset("data:7001", "photos"));

#ifndef MILLRACE_CLIENT_RECEIVE_SERVER_QUERIES_H_
#define MILLRACE_CLIENT_RECEIVE_SERVER_QUERIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/prefetch/batch_info.h"
#include "client/receive/unary_call.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::receive {

// The answer of the first server that has the dataset. NotFound: no server has
// it. Cancelled: `cancelled`, if given, was set.
absl::StatusOr<DatasetInfo> DescribeDataset(
    absl::string_view endpoint, absl::string_view dataset,
    absl::Duration timeout = absl::Seconds(5),
    const CancelFlag* cancelled = nullptr);

// The answer of the first server that answers.
absl::StatusOr<std::vector<DatasetSummary>> ListDatasets(
    absl::string_view endpoint, absl::Duration timeout = absl::Seconds(5));

struct ServerStatus {
  std::string address;
  absl::StatusOr<GetStatusResponse> status;
};

// One entry for every server of the endpoint, also for servers that do not
// answer. An error only when the endpoint is malformed or no name has an
// address.
absl::StatusOr<std::vector<ServerStatus>> GetServerStatus(
    absl::string_view endpoint, absl::Duration timeout = absl::Seconds(5));

// Explanation of all rows of the batch at `position` of a plan, for one rank:
// ExplainBatch() part by part. The batch has rows. DataLoss: a server explains no
// row. Cancelled: `cancelled`, if given, was set.
absl::StatusOr<ExplainBatchResponse> ExplainWholeBatch(
    absl::string_view endpoint, const OpenResponse& plan, Position position,
    uint32_t rank, uint32_t world_size,
    absl::Duration timeout = absl::Seconds(60),
    const CancelFlag* cancelled = nullptr);

// Explanation of rows of a batch by the first server that serves the plan. The
// servers get the request one after the other, and again while they are busy
// with another batch, until `timeout` is over. Unimplemented: the server has an
// earlier version. Cancelled: `cancelled`, if given, was set.
absl::StatusOr<ExplainBatchResponse> ExplainBatch(
    absl::string_view endpoint, const ExplainBatchRequest& request,
    absl::Duration timeout = absl::Seconds(60),
    const CancelFlag* cancelled = nullptr);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_SERVER_QUERIES_H_
