#include "tests/testing/rpc_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/grpc_status.h"
#include "proto/wire/version.h"

namespace millrace::testing {

RpcClient::RpcClient(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  channel_ = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::DataService::NewStub(channel_);
}

absl::StatusOr<OpenResponse> RpcClient::Open(const PipelineSpec& spec,
                                             uint32_t world_size) {
  OpenRequest request;
  request.set_protocol_version(wire::kProtocolVersion);
  *request.mutable_spec() = spec;
  request.set_world_size(world_size);
  grpc::ClientContext context;
  OpenResponse response;
  const absl::Status status =
      FromGrpcStatus(stub_->Open(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

GetBatchesRequest RpcClient::Request(const OpenResponse& plan,
                                     uint64_t first_step, uint64_t step_count) {
  GetBatchesRequest request;
  request.set_protocol_version(wire::kProtocolVersion);
  *request.mutable_resolved_spec() = plan.resolved_spec();
  request.set_plan_hash(plan.plan_hash());
  request.set_expected_fingerprint(plan.fingerprint());
  request.set_first_step(first_step);
  request.set_step_count(step_count);
  request.set_world_size(1);
  return request;
}

absl::Status RpcClient::GetBatches(const GetBatchesRequest& request,
                                   std::vector<ReceivedBatch>* batches) {
  grpc::ClientContext context;
  auto reader = stub_->GetBatches(&context, request);
  Frame frame;
  ReceivedBatch batch;
  bool open = false;  // a batch whose payload is not whole
  absl::Status order;
  while (reader->Read(&frame)) {
    if (frame.has_header() == open) {
      order = absl::InternalError("a header inside a batch, or none before it");
    }
    if (frame.has_header()) {
      batch.header = std::move(*frame.mutable_header());
      batch.payload.clear();
    }
    if (frame.step() != batch.header.step() ||
        frame.offset() != batch.payload.size()) {
      order = absl::InternalError(
          absl::StrCat("frame of step ", frame.step(), " at ", frame.offset(),
                       " came where step ", batch.header.step(), " at ",
                       batch.payload.size(), " was due"));
    }
    batch.payload += frame.data();
    open = batch.payload.size() < batch.header.payload_bytes();
    if (!open) batches->push_back(std::move(batch));
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  if (!order.ok()) return order;
  if (status.ok() && open) return absl::InternalError("the last batch is cut");
  return status;
}

absl::StatusOr<GetStatusResponse> RpcClient::GetStatus() {
  grpc::ClientContext context;
  GetStatusResponse response;
  const absl::Status status =
      FromGrpcStatus(stub_->GetStatus(&context, {}, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace millrace::testing
