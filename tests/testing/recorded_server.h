// A data server that answers what another one answered once: Open with a
// recorded message, GetBatches with recorded frames. It stands for a server of
// an earlier release, or, changed by the test, of a later one.
//
//   Recording recording = ReadRecording(folder);
//   recording.open.set_content_revision(3);
//   RecordedServer server(recording);
//   Connect(server.address());
//
// Thread-safe after it was made. Owns gRPC's server; stops with it.

#ifndef MILLRACE_TESTS_TESTING_RECORDED_SERVER_H_
#define MILLRACE_TESTS_TESTING_RECORDED_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/names.h"

namespace millrace::testing {

struct Recording {
  OpenRequest open_request;
  OpenResponse open;
  GetBatchesRequest request;  // of all steps of epoch 0
  std::vector<Frame> frames;  // what came, in the order of the steps
};

// v1_open_request.bin and so on in `folder`; aborts when one cannot be read.
Recording ReadRecording(const std::string& folder);
void WriteRecording(const Recording& recording, const std::string& folder);

class RecordedServer final : private v1::DataService::Service {
 public:
  // A call of GetBatches ends with `refusal` when that is not OK, and as
  // FailedPrecondition when it is for another plan.
  explicit RecordedServer(Recording recording,
                          absl::Status refusal = absl::OkStatus());
  ~RecordedServer() override;

  std::string address() const;
  // The next `count` calls of Open end with `refusal`. Before the first call.
  void RefuseOpens(int count, absl::Status refusal);
  uint64_t batches_sent() const { return batches_sent_; }
  uint64_t calls() const { return calls_; }

 private:
  grpc::Status Open(grpc::ServerContext* context, const OpenRequest* request,
                    OpenResponse* response) override;
  grpc::Status GetBatches(grpc::ServerContext* context,
                          const GetBatchesRequest* request,
                          grpc::ServerWriter<Frame>* writer) override;

  const Recording recording_;
  const absl::Status refusal_;
  absl::Status open_refusal_;  // constant once calls come
  std::atomic<int> opens_to_refuse_{0};
  std::atomic<uint64_t> batches_sent_{0};
  std::atomic<uint64_t> calls_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_RECORDED_SERVER_H_
