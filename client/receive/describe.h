// Questions to data servers outside of the data path: what datasets there are,
// what one holds, how a server is doing. Blocking, for programs' main thread;
// errors name the endpoint and each server that did not answer.
//
//   MR_ASSIGN_OR_RETURN(DatasetInfo info,
//                       DescribeDataset("data:7001", "photos"));

#ifndef MILLRACE_CLIENT_RECEIVE_DESCRIBE_H_
#define MILLRACE_CLIENT_RECEIVE_DESCRIBE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// What the first server that knows the dataset says. NotFound: none knows it.
absl::StatusOr<DatasetInfo> DescribeDataset(
    absl::string_view endpoint, absl::string_view dataset,
    absl::Duration timeout = absl::Seconds(5));

// Of the first server that answers.
absl::StatusOr<std::vector<DatasetSummary>> ListDatasets(
    absl::string_view endpoint, absl::Duration timeout = absl::Seconds(5));

struct ServerStatus {
  std::string address;
  absl::StatusOr<GetStatusResponse> status;
};

// Every server of the endpoint, also those that do not answer. An error only
// when the endpoint is malformed or its names have no address.
absl::StatusOr<std::vector<ServerStatus>> GetServerStatus(
    absl::string_view endpoint, absl::Duration timeout = absl::Seconds(5));

// What the first server that serves the plan says of rows of a batch. Servers
// are asked one after the other, each again while it is busy with another
// batch, until `timeout` is over. Unimplemented: of an earlier version.
absl::StatusOr<ExplainBatchResponse> ExplainBatch(
    absl::string_view endpoint, const ExplainBatchRequest& request,
    absl::Duration timeout = absl::Seconds(60));

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_DESCRIBE_H_
