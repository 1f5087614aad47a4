// A plain client of the data service for tests: generated stubs and protobuf
// only, as a client in any other language would be. Not the product's client.

#ifndef MILLRACE_TESTS_TESTING_RPC_CLIENT_H_
#define MILLRACE_TESTS_TESTING_RPC_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/names.h"

namespace millrace::testing {

struct ReceivedBatch {
  BatchHeader header;
  std::string payload;
};

class RpcClient {
 public:
  // A connection of its own, not shared with other clients of the process.
  explicit RpcClient(const std::string& address);

  v1::DataService::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  absl::StatusOr<OpenResponse> Open(const PipelineSpec& spec,
                                    uint32_t world_size);

  // A request for steps of the plan that Open answered.
  static GetBatchesRequest Request(const OpenResponse& plan,
                                   uint64_t first_step, uint64_t step_count);

  // Reads until the call ends. Checks that the frames of a batch are
  // contiguous and complete (Internal otherwise). `batches` has what was
  // received whole, in order of arrival.
  absl::Status GetBatches(const GetBatchesRequest& request,
                          std::vector<ReceivedBatch>* batches);

  absl::StatusOr<GetStatusResponse> GetStatus();

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DataService::Stub> stub_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_RPC_CLIENT_H_
