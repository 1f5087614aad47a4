#include "tests/testing/recorded_server.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/grpc_status.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

template <typename Message>
Message ReadMessage(const std::string& path) {
  Message message;
  const std::string bytes = ReadFile(path);
  if (bytes.empty() || !message.ParseFromString(bytes)) {
    std::fprintf(stderr, "%s is no message\n", path.c_str());
    std::abort();
  }
  return message;
}

}  // namespace

Recording ReadRecording(const std::string& folder) {
  Recording recording;
  recording.open_request =
      ReadMessage<OpenRequest>(folder + "/v1_open_request.bin");
  recording.open = ReadMessage<OpenResponse>(folder + "/v1_open_response.bin");
  recording.request =
      ReadMessage<GetBatchesRequest>(folder + "/v1_get_batches_request.bin");
  const std::string bytes = ReadFile(folder + "/v1_frames.bin");
  google::protobuf::io::ArrayInputStream stream(bytes.data(),
                                                static_cast<int>(bytes.size()));
  while (true) {
    Frame frame;
    bool end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(
            &frame, &stream, &end)) {
      if (end) break;
      std::fprintf(stderr, "%s/v1_frames.bin is damaged\n", folder.c_str());
      std::abort();
    }
    recording.frames.push_back(std::move(frame));
  }
  return recording;
}

void WriteRecording(const Recording& recording, const std::string& folder) {
  WriteFile(folder + "/v1_open_request.bin",
            recording.open_request.SerializeAsString());
  WriteFile(folder + "/v1_open_response.bin",
            recording.open.SerializeAsString());
  WriteFile(folder + "/v1_get_batches_request.bin",
            recording.request.SerializeAsString());
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    for (const Frame& frame : recording.frames) {
      google::protobuf::util::SerializeDelimitedToZeroCopyStream(frame,
                                                                 &stream);
    }
  }
  WriteFile(folder + "/v1_frames.bin", bytes);
}

RecordedServer::RecordedServer(Recording recording, absl::Status refusal)
    : recording_(std::move(recording)), refusal_(std::move(refusal)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

RecordedServer::~RecordedServer() {
  server_->Shutdown(std::chrono::system_clock::now());
}

std::string RecordedServer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void RecordedServer::RefuseOpens(int count, absl::Status refusal) {
  open_refusal_ = std::move(refusal);
  opens_to_refuse_ = count;
}

grpc::Status RecordedServer::Open(grpc::ServerContext* context,
                                  const OpenRequest* /*request*/,
                                  OpenResponse* response) {
  if (opens_to_refuse_ > 0) {
    --opens_to_refuse_;
    return ToGrpcStatus(open_refusal_);
  }
  *response = recording_.open;
  return grpc::Status::OK;
}

grpc::Status RecordedServer::GetBatches(grpc::ServerContext* context,
                                        const GetBatchesRequest* request,
                                        grpc::ServerWriter<Frame>* writer) {
  ++calls_;
  if (!refusal_.ok()) return ToGrpcStatus(refusal_);
  if (request->plan_hash() != recording_.open.plan_hash()) {
    return ToGrpcStatus(absl::FailedPreconditionError(
        absl::StrCat("the plan differs (content revision ",
                     recording_.open.content_revision(), ")")));
  }
  for (uint64_t i = 0; i < request->step_count(); ++i) {
    const uint64_t step = request->first_step() + i;
    for (const Frame& frame : recording_.frames) {
      if (frame.step() == step && !writer->Write(frame)) {
        return grpc::Status::CANCELLED;
      }
    }
    ++batches_sent_;
  }
  return grpc::Status::OK;
}

}  // namespace millrace::testing
