// DataService answers the methods of proto/data_service.proto over an Engine:
// the adapter between gRPC and the pipeline. All methods are served as raw
// bytes, for three reasons: the digests of requests and answers are over bytes
// (proto/wire/message_digest.h); payloads never pass through protobuf; and gRPC
// itself answers a request that does not parse (a string that is not UTF-8)
// with INTERNAL and no message. The bytes on the wire are the same.
//
// Thread-safe; gRPC calls it from its own threads. Owns nothing but counters.

#ifndef MILLRACE_SERVER_RPC_DATA_SERVICE_H_
#define MILLRACE_SERVER_RPC_DATA_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/names.h"
#include "server/rpc/batch_stream.h"

namespace millrace::rpc {

class DataServiceImpl final
    : public v1::DataService::WithRawCallbackMethod_ListDatasets<
          v1::DataService::WithRawCallbackMethod_DescribeDataset<
              v1::DataService::WithRawCallbackMethod_Open<
                  v1::DataService::WithRawCallbackMethod_GetStatus<
                      v1::DataService::WithRawCallbackMethod_ExplainBatch<
                          v1::DataService::WithRawCallbackMethod_GetBatches<
                              v1::DataService::Service>>>>>> {
 public:
  // `content_revision` is shown by GetStatus.
  DataServiceImpl(const StreamEnvironment& environment,
                  uint32_t content_revision);
  // Waits for a batch that is being explained.
  ~DataServiceImpl() override;

  // From now on new work is refused as Unavailable; running calls continue.
  void RefuseNewWork() { shutting_down_ = true; }

  grpc::ServerUnaryReactor* ListDatasets(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DescribeDataset(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Open(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ExplainBatch(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GetBatches(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;

 private:
  absl::Status Describe(const DescribeDatasetRequest& request,
                        DescribeDatasetResponse* response) const;
  static absl::Status DescribePlan(const OpenRequest& request,
                                   const pipeline::Pipeline& pipeline,
                                   OpenResponse* response);
  void FillStatus(GetStatusResponse* response) const;
  absl::StatusOr<BatchStream*> OpenStream(grpc::CallbackServerContext* context,
                                          const GetBatchesRequest& request,
                                          uint64_t answer_seed);
  using Found = std::function<void(absl::StatusOr<BatchStream::Steps>)>;
  // Passes to `found` the pipeline and the range of a request that has passed
  // all checks: during the call, or later on a worker thread if the pipeline
  // must be built.
  void FindPipeline(const pipeline::Caller& caller,
                    const GetBatchesRequest& request,
                    std::function<bool()> wanted, Found found) const;
  // Explains on a thread of its own, which ends the call.
  absl::Status StartExplaining(grpc::ServerUnaryReactor* reactor,
                               grpc::CallbackServerContext* context,
                               const ExplainBatchRequest& request,
                               uint64_t answer_seed, grpc::ByteBuffer* response,
                               absl::StatusOr<BatchStream::Steps> found);
  absl::Status CheckRunning() const;
  absl::Status CheckRoomForStream() const;
  // Ends a unary call and logs a refusal. `answer_seed` is the seed of the
  // refusal's digest (ToGrpcStatus()); a request that was not parsed has none.
  // DefaultReactor() creates a new reactor on each call, so a caller that
  // answers later must keep the first.
  void Answer(grpc::ServerUnaryReactor* reactor,
              grpc::CallbackServerContext* context, absl::string_view method,
              std::optional<uint64_t> answer_seed, const absl::Status& status);
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   absl::string_view method,
                                   std::optional<uint64_t> answer_seed,
                                   const absl::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    Answer(reactor, context, method, answer_seed, status);
    return reactor;
  }
  absl::Status Refused(absl::string_view peer, absl::string_view method,
                       const absl::Status& status) const;

  const StreamEnvironment environment_;
  const uint32_t content_revision_;
  const SteadyTime started_;
  std::atomic<bool> shutting_down_{false};
  mutable std::atomic<uint64_t> refusals_not_logged_{0};

  // One batch is explained at a time, on a thread that is not gRPC's, because
  // it takes as long as building the rows.
  Mutex explain_mu_;
  bool explaining_ MR_GUARDED_BY(explain_mu_) = false;
  std::thread explainer_ MR_GUARDED_BY(explain_mu_);
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_DATA_SERVICE_H_
