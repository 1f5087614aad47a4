// Ready batches over the loopback: what the wire alone can carry. A server
// process streams batches that cost nothing to make, this process receives
// them and copies each byte once.
//
//   wire_bench [--client=raw|loader] [--batch_bytes=9633792] [--gigabytes=6]
//              [--rounds=3]
//
// raw: one stream, plain gRPC reads, each slice copied once into one buffer.
// loader: the product's client, window and all.
// Prints GB/s (10^9), CPU seconds per GB of both sides, batches/s.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/prefetch/host_loader.h"
#include "common/byte_budget.h"
#include "common/logging.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/wire/frame_view.h"
#include "proto/wire/version.h"
#include "server/rpc/rpc_server.h"
#include "tests/testing/fake_engine.h"

namespace millrace {
namespace {

struct Flags {
  std::string client = "raw";
  uint64_t batch_bytes = 64 * 224 * 224 * 3;
  double gigabytes = 6;
  int rounds = 3;
};

double CpuSeconds(int who) {
  rusage usage = {};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return t.tv_sec + t.tv_usec * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The server, in a process of its own; ends with SIGKILL.
[[noreturn]] void RunServer(const Flags& flags, int port_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ByteBudget budget(uint64_t{1} << 30);
  testing::FakeEngine engine(
      {.budget = &budget,
       .payload_bytes = flags.batch_bytes,
       .steps_per_epoch = uint64_t{1} << 40,
       .shared_payload = std::make_shared<BatchPayload>(
           flags.batch_bytes, ByteBudget::Reservation())});
  auto server = RpcServer::Start(
      {.listen = "127.0.0.1:0", .engine = &engine, .budget = &budget});
  MR_CHECK(server.ok()) << server.status();
  const int port = (*server)->port();
  MR_CHECK(write(port_fd, &port, sizeof(port)) == sizeof(port));
  while (true) pause();
}

// One stream of plain gRPC. Returns the batches received.
uint64_t ReceiveRaw(const std::string& address, const Flags& flags,
                    uint64_t batches) {
  auto channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  OpenResponse plan;
  {
    grpc::ClientContext context;
    OpenRequest request;
    request.set_protocol_version(kProtocolVersion);
    const grpc::Status status =
        v1::DataService::NewStub(channel)->Open(&context, request, &plan);
    MR_CHECK(status.ok()) << status.error_message();
  }
  GetBatchesRequest request;
  request.set_protocol_version(kProtocolVersion);
  *request.mutable_resolved_spec() = plan.resolved_spec();
  request.set_plan_hash(plan.plan_hash());
  request.set_expected_fingerprint(plan.fingerprint());
  request.set_step_count(batches);
  request.set_world_size(1);

  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  auto call =
      stub.PrepareCall(&context, "/millrace.v1.DataService/GetBatches", &queue);
  call->StartCall(nullptr);
  MR_CHECK(next());
  const grpc::Slice slice(request.SerializeAsString());
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  MR_CHECK(next());

  std::vector<uint8_t> slot(flags.batch_bytes);
  FrameView frame;
  std::vector<grpc::Slice> slices;
  std::vector<absl::string_view> views;
  grpc::ByteBuffer message;
  uint64_t received = 0;
  while (true) {
    call->Read(&message, nullptr);
    if (!next()) break;
    MR_CHECK(message.Dump(&slices).ok());
    views.clear();
    for (const grpc::Slice& s : slices) {
      views.emplace_back(reinterpret_cast<const char*>(s.begin()), s.size());
    }
    MR_CHECK(ParseFrame(views, &frame).ok());
    MR_CHECK(CopyFrameData(frame, absl::MakeSpan(slot)).ok());
    received += frame.offset + frame.data_bytes == flags.batch_bytes;
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  MR_CHECK(status.ok()) << status.error_message();
  return received;
}

uint64_t ReceiveWithLoader(const std::string& address, uint64_t batches) {
  HostLoaderOptions options;
  options.endpoint = address;
  auto loader = OpenHostLoader(options);
  MR_CHECK(loader.ok()) << loader.status();
  uint64_t received = 0;
  while (received < batches) {
    auto batch = (*loader)->Next();
    MR_CHECK(batch.ok()) << batch.status();
    ++received;
  }
  return received;
}

void Round(const Flags& flags) {
  int pipe_fds[2];
  MR_CHECK(pipe(pipe_fds) == 0);
  // Each round in processes that have not used gRPC before the fork.
  const pid_t server = fork();
  if (server == 0) RunServer(flags, pipe_fds[1]);
  int port = 0;
  MR_CHECK(read(pipe_fds[0], &port, sizeof(port)) == sizeof(port));
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const uint64_t batches = std::max<uint64_t>(
      1, static_cast<uint64_t>(flags.gigabytes * 1e9 /
                               std::max<uint64_t>(1, flags.batch_bytes)));
  const double cpu = CpuSeconds(RUSAGE_SELF);
  const absl::Time start = absl::Now();
  const uint64_t received = flags.client == "raw"
                                ? ReceiveRaw(address, flags, batches)
                                : ReceiveWithLoader(address, batches);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const double client_cpu = CpuSeconds(RUSAGE_SELF) - cpu;
  MR_CHECK(received == batches) << received << " of " << batches;
  kill(server, SIGKILL);
  rusage usage = {};
  int status = 0;
  wait4(server, &status, 0, &usage);
  const double server_cpu =
      usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  const double gigabytes = received * flags.batch_bytes / 1e9;
  std::printf(
      "%s %lu bytes: %.2f GB/s, client %.2f CPU-s/GB, server %.2f CPU-s/GB, "
      "%.0f batches/s\n",
      flags.client.c_str(), static_cast<unsigned long>(flags.batch_bytes),
      gigabytes / seconds, client_cpu / gigabytes, server_cpu / gigabytes,
      received / seconds);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    const bool good = absl::ConsumePrefix(&text, "--client=")
                          ? (flags.client = std::string(text),
                             text == "raw" || text == "loader")
                      : absl::ConsumePrefix(&text, "--batch_bytes=")
                          ? absl::SimpleAtoi(text, &flags.batch_bytes)
                      : absl::ConsumePrefix(&text, "--gigabytes=")
                          ? absl::SimpleAtod(text, &flags.gigabytes)
                      : absl::ConsumePrefix(&text, "--rounds=")
                          ? absl::SimpleAtoi(text, &flags.rounds)
                          : false;
    if (!good) {
      std::fprintf(stderr, "wire_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  for (int round = 0; round < flags.rounds; ++round) {
    // A child each, because gRPC must not be forked.
    const pid_t child = fork();
    if (child == 0) {
      Round(flags);
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
