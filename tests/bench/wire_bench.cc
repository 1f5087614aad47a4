// Ready batches over a connection: what the wire alone can carry. A server
// process streams batches that cost nothing to make, this process receives
// them and copies each byte once.
//
//   wire_bench [--client=loader|raw|tcp] [--batch_bytes=9633792]
//              [--seconds=2] [--warmup=0.3] [--rounds=3] [--verify] [--json]
//   wire_bench --serve=HOST        a server alone, until it is killed; prints
//                                  its two ports: of gRPC, of plain TCP
//   wire_bench --connect=HOST:PORT ...   to one that runs already
//
// loader: the product's client, window and all; with --verify it compares each
// payload with its digest, which the others do not do. raw: one stream, plain
// gRPC reads, each slice copied once into one buffer. tcp: one plain TCP stream
// read into one buffer, the measure for the two.
// Prints GB/s (10^9), CPU seconds per GB of both sides (of the server only
// when it was started here), batches/s, all from the end of the warm-up on.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "common/byte_budget.h"
#include "common/logging.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/wire/frame_view.h"
#include "proto/wire/version.h"
#include "server/rpc/rpc_server.h"
#include "tests/bench/raw_tcp.h"
#include "tests/testing/fake_engine.h"

namespace millrace {
namespace {

struct Flags {
  std::string client = "loader";
  std::string serve;
  std::string connect;
  uint64_t batch_bytes = 64 * 224 * 224 * 3;
  double seconds = 2;
  double warmup = 0.3;
  int rounds = 3;
  bool verify = false;
  bool json = false;
};

struct Ports {
  int grpc = 0;
  int tcp = 0;
};

double Seconds(clockid_t clock) {
  timespec time = {};
  MR_CHECK(clock_gettime(clock, &time) == 0);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

// Never returns; `started` is told the ports.
[[noreturn]] void RunServer(const Flags& flags, const std::string& host,
                            const std::function<void(Ports)>& started) {
  ByteBudget budget(uint64_t{1} << 30);
  const auto payload = std::make_shared<batch::BatchPayload>(
      flags.batch_bytes, ByteBudget::Reservation());
  testing::FakeEngine engine({.budget = &budget,
                              .payload_bytes = flags.batch_bytes,
                              .steps_per_epoch = uint64_t{1} << 40,
                              .shared_payload = payload});
  auto server = rpc::RpcServer::Start({.listen = absl::StrCat(host, ":0"),
                                       .engine = &engine,
                                       .budget = &budget});
  MR_CHECK(server.ok()) << server.status();
  started({.grpc = (*server)->port(),
           .tcp = ServeRawTcp(host, {payload->data(), payload->bytes()})});
  while (true) pause();
}

// Decides after each batch whether that was enough, and remembers the rates.
class Meter {
 public:
  Meter(const Flags& flags, clockid_t server_cpu)
      : flags_(flags),
        server_cpu_(server_cpu),
        first_(Seconds(CLOCK_MONOTONIC)) {}

  // A batch has come. False: it was the last one.
  bool Count() {
    const double now = Seconds(CLOCK_MONOTONIC);
    if (start_ == 0) {
      if (now - first_ >= flags_.warmup) Begin(now);
      return true;
    }
    ++batches_;
    elapsed_ = now - start_;
    return elapsed_ < flags_.seconds;
  }

  void Print() const {
    const double gigabytes = batches_ * flags_.batch_bytes / 1e9;
    const double client =
        (Seconds(CLOCK_PROCESS_CPUTIME_ID) - client_start_) / gigabytes;
    const double server =
        server_cpu_ == 0 ? 0
                         : (Seconds(server_cpu_) - server_start_) / gigabytes;
    if (flags_.json) {
      std::printf(
          "{\"gigabytes_per_second\": %.4f, \"cpu_seconds_per_gigabyte\": "
          "%.4f, \"server_cpu_seconds_per_gigabyte\": %.4f, "
          "\"batches_per_second\": %.1f}\n",
          gigabytes / elapsed_, client, server, batches_ / elapsed_);
    } else {
      std::printf(
          "%s %lu bytes: %.3f GB/s, client %.3f CPU-s/GB, server %.3f "
          "CPU-s/GB, %.0f batches/s\n",
          flags_.client.c_str(), static_cast<unsigned long>(flags_.batch_bytes),
          gigabytes / elapsed_, client, server, batches_ / elapsed_);
    }
    std::fflush(stdout);
  }

 private:
  void Begin(double now) {
    start_ = now;
    client_start_ = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (server_cpu_ != 0) server_start_ = Seconds(server_cpu_);
  }

  const Flags& flags_;
  const clockid_t server_cpu_;  // 0: not known
  const double first_;
  double start_ = 0;  // of what counts; 0: not yet
  double client_start_ = 0;
  double server_start_ = 0;
  double elapsed_ = 0;
  uint64_t batches_ = 0;
};

// One stream of plain gRPC.
void ReceiveRaw(const std::string& address, const Flags& flags, Meter* meter) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  auto channel = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), args);
  OpenResponse plan;
  {
    grpc::ClientContext context;
    OpenRequest request;
    request.set_protocol_version(wire::kProtocolVersion);
    const grpc::Status status =
        v1::DataService::NewStub(channel)->Open(&context, request, &plan);
    MR_CHECK(status.ok()) << status.error_message();
  }
  GetBatchesRequest request;
  request.set_protocol_version(wire::kProtocolVersion);
  *request.mutable_resolved_spec() = plan.resolved_spec();
  request.set_plan_hash(plan.plan_hash());
  request.set_expected_fingerprint(plan.fingerprint());
  request.set_step_count(plan.steps_per_epoch());
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
  wire::FrameView frame;
  std::vector<grpc::Slice> slices;
  std::vector<absl::string_view> views;
  grpc::ByteBuffer message;
  bool more = true;
  while (more) {
    call->Read(&message, nullptr);
    MR_CHECK(next()) << "the stream ended";
    MR_CHECK(message.Dump(&slices).ok());
    views.clear();
    for (const grpc::Slice& s : slices) {
      views.emplace_back(reinterpret_cast<const char*>(s.begin()), s.size());
    }
    MR_CHECK(wire::ParseFrame(views, &frame).ok());
    MR_CHECK(wire::CopyFrameData(frame, absl::MakeSpan(slot)).ok());
    slices.clear();
    message.Clear();
    if (frame.offset + frame.data_bytes == flags.batch_bytes) {
      more = meter->Count();
    }
  }
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
}

void ReceiveWithLoader(const std::string& address, const Flags& flags,
                       Meter* meter) {
  HostLoaderOptions options;
  options.endpoint = address;
  options.verify_payload = flags.verify;
  auto loader = receive::OpenHostLoader(options);
  MR_CHECK(loader.ok()) << loader.status();
  bool more = true;
  while (more) {
    auto batch = (*loader)->Next();
    MR_CHECK(batch.ok()) << batch.status();
    more = meter->Count();
  }
}

void ReceiveTcp(const std::string& address, const Flags& flags, Meter* meter) {
  RawTcpStream stream(address);
  std::vector<uint8_t> slot(flags.batch_bytes);
  bool more = true;
  while (more) {
    stream.Read(absl::MakeSpan(slot));
    more = meter->Count();
  }
}

void Receive(const std::string& address, const Flags& flags,
             clockid_t server_cpu) {
  Meter meter(flags, server_cpu);
  if (flags.client == "tcp") {
    ReceiveTcp(address, flags, &meter);
  } else if (flags.client == "raw") {
    ReceiveRaw(address, flags, &meter);
  } else {
    ReceiveWithLoader(address, flags, &meter);
  }
  meter.Print();
}

void Round(const Flags& flags) {
  if (!flags.connect.empty()) return Receive(flags.connect, flags, 0);
  int pipe_fds[2];
  MR_CHECK(pipe(pipe_fds) == 0);
  // Each round in processes that have not used gRPC before the fork.
  const pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunServer(flags, "127.0.0.1", [&pipe_fds](Ports ports) {
      MR_CHECK(write(pipe_fds[1], &ports, sizeof(ports)) == sizeof(ports));
    });
  }
  Ports ports;
  MR_CHECK(read(pipe_fds[0], &ports, sizeof(ports)) == sizeof(ports));
  clockid_t server_cpu = 0;
  MR_CHECK(clock_getcpuclockid(server, &server_cpu) == 0);
  Receive(absl::StrCat("127.0.0.1:",
                       flags.client == "tcp" ? ports.tcp : ports.grpc),
          flags, server_cpu);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    const auto word = [&text](std::string* value) {
      *value = std::string(text);
      return !value->empty();
    };
    const bool good =
        absl::ConsumePrefix(&text, "--client=")
            ? word(&flags.client) &&
                  (text == "raw" || text == "loader" || text == "tcp")
        : absl::ConsumePrefix(&text, "--batch_bytes=")
            ? absl::SimpleAtoi(text, &flags.batch_bytes) &&
                  flags.batch_bytes > 0
        : absl::ConsumePrefix(&text, "--seconds=")
            ? absl::SimpleAtod(text, &flags.seconds) && flags.seconds > 0
        : absl::ConsumePrefix(&text, "--warmup=")
            ? absl::SimpleAtod(text, &flags.warmup) && flags.warmup >= 0
        : absl::ConsumePrefix(&text, "--rounds=")
            ? absl::SimpleAtoi(text, &flags.rounds)
        : absl::ConsumePrefix(&text, "--serve=")   ? word(&flags.serve)
        : absl::ConsumePrefix(&text, "--connect=") ? word(&flags.connect)
        : text == "--verify"                       ? (flags.verify = true)
        : text == "--json"                         ? (flags.json = true)
                                                   : false;
    if (!good) {
      std::fprintf(stderr, "wire_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (!flags.serve.empty()) {
    RunServer(flags, flags.serve, [](Ports ports) {
      std::printf("grpc %d tcp %d\n", ports.grpc, ports.tcp);
      std::fflush(stdout);
    });
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
