// What readers that are slow cost a reader that is not: the time that one call
// takes for its batches, alone and beside 50 calls over 10 connections that are
// each read at 85 kB/s. Synthetic batches of SAMPLES x 224 x 224 x 3 bytes
// (default 64: 9.6 MB).
//
//   millrace-server --synthetic_only --memory_budget=512MiB
//       --listen=127.0.0.1:7001 &
//   slow_readers 127.0.0.1:7001
//       [BATCHES [CALLS [CONNECTIONS [KB_PER_SECOND [IDS [SAMPLES]]]]]]
//
// IDS says which client_id the slow calls send: none (the default), connection
// (one each connection) or call (a new one each call). Prints both times of
// each of five rounds and the median ratio. BATCHES 0: slow calls until a
// signal ends the program, beside which another client can be measured.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/data_service.grpc.pb.h"
#include "proto/names.h"
#include "tests/testing/rpc_client.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;
using testing::RpcClient;

constexpr int kRounds = 5;
// Until slow readers hold what they can.
constexpr std::chrono::seconds kWarmUp{10};

PipelineSpec Spec(int samples) {
  PipelineSpec spec;
  Synthetic& synthetic = *spec.add_sources()->mutable_synthetic();
  synthetic.set_samples(samples * 10'000);
  SyntheticField& field = *synthetic.add_fields();
  field.set_name("pixels");
  field.set_dtype(DTYPE_UINT8);
  for (const int side : {224, 224, 3}) field.add_shape(side);
  spec.set_batch_size(samples);
  return spec;
}

// Seconds that `batches` take; below 0: it failed.
double Read(const std::string& address, const PipelineSpec& spec,
            uint64_t batches) {
  RpcClient client(address);
  const auto plan = client.Open(spec, 1);
  if (!plan.ok()) {
    std::fprintf(stderr, "Open: %s\n", plan.status().ToString().c_str());
    return -1;
  }
  const auto start = steady_clock::now();
  uint64_t first = 0;
  // A call that the server ends is asked again, as every client does.
  while (first < batches) {
    grpc::ClientContext context;
    auto reader = client.stub().GetBatches(
        &context, RpcClient::Request(*plan, first, batches - first));
    Frame frame;
    uint64_t got = 0;
    while (reader->Read(&frame)) got += frame.has_header();
    const grpc::Status status = reader->Finish();
    if (status.ok()) break;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE &&
        status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
      std::fprintf(stderr, "%s\n", status.error_message().c_str());
      return -1;
    }
    first += got > 0 ? got - 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

enum class Ids { kNone, kConnection, kCall };

// 16 bytes of a client_id.
std::string IdOf(uint64_t number) {
  char id[17];
  std::snprintf(id, sizeof(id), "%016llx",
                static_cast<unsigned long long>(number));
  return id;
}

class SlowReaders {
 public:
  SlowReaders(const std::string& address, PipelineSpec spec, int calls,
              int connections, double bytes_per_second, Ids ids)
      : spec_(std::move(spec)), ids_(ids) {
    for (int i = 0; i < connections; ++i) {
      clients_.push_back(std::make_unique<RpcClient>(address));
    }
    for (int i = 0; i < calls; ++i) {
      threads_.emplace_back([this, i, bytes_per_second] {
        Run(*clients_[i % clients_.size()], i, bytes_per_second);
      });
    }
  }
  ~SlowReaders() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  void Run(RpcClient& client, int call, double bytes_per_second) {
    const auto plan = client.Open(spec_, 1);
    if (!plan.ok()) return;
    while (!stopping_) {
      grpc::ClientContext context;
      GetBatchesRequest request = RpcClient::Request(*plan, call * 100, 100);
      if (ids_ == Ids::kConnection) {
        request.set_client_id(IdOf(call % clients_.size()));
      } else if (ids_ == Ids::kCall) {
        request.set_client_id(IdOf(1000 + calls_++));
      }
      auto reader = client.stub().GetBatches(&context, request);
      Frame frame;
      auto due = steady_clock::now();
      while (!stopping_ && reader->Read(&frame)) {
        bytes_ += frame.data().size();
        due += std::chrono::duration_cast<steady_clock::duration>(
            std::chrono::duration<double>(frame.data().size() /
                                          bytes_per_second));
        while (!stopping_ && steady_clock::now() < due) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      }
      context.TryCancel();
      while (reader->Read(&frame)) {
      }
      reader->Finish();
      if (!stopping_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
    }
  }

  const PipelineSpec spec_;
  const Ids ids_;
  std::vector<std::unique_ptr<RpcClient>> clients_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> bytes_{0};
  std::vector<std::thread> threads_;
};

int Main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  if (argc < 2) {
    std::fprintf(stderr,
                 "slow_readers HOST:PORT [BATCHES [CALLS [CONNECTIONS "
                 "[KB_PER_SECOND [none|connection|call [SAMPLES]]]]]]\n");
    return 2;
  }
  const std::string address = argv[1];
  const int batches = number(2, 60);
  const int calls = number(3, 50);
  const int connections = number(4, 10);
  const double rate = 1000.0 * number(5, 85);
  const std::string ids_name = argc > 6 ? argv[6] : "none";
  const Ids ids = ids_name == "connection" ? Ids::kConnection
                  : ids_name == "call"     ? Ids::kCall
                                           : Ids::kNone;
  const PipelineSpec spec = Spec(number(7, 64));
  if (batches == 0) {
    SlowReaders slow(address, spec, calls, connections, rate, ids);
    for (uint64_t before = 0;; before = slow.bytes()) {
      std::this_thread::sleep_for(kWarmUp);
      std::printf("the slow ones read %.0f kB/s\n",
                  (slow.bytes() - before) / 1000.0 / kWarmUp.count());
      std::fflush(stdout);
    }
  }
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    const double alone = Read(address, spec, batches);
    SlowReaders slow(address, spec, calls, connections, rate, ids);
    std::this_thread::sleep_for(kWarmUp);
    const uint64_t before = slow.bytes();
    const auto start = steady_clock::now();
    const double beside = Read(address, spec, batches);
    if (alone <= 0 || beside <= 0) return 1;
    ratios.push_back(beside / alone);
    std::printf(
        "round %d: %d batches alone %.2f s, beside %d slow calls %.2f s:"
        " %.2f times as long; the slow ones read %.0f kB/s\n",
        round + 1, batches, alone, calls, beside, ratios.back(),
        (slow.bytes() - before) / 1000.0 /
            std::chrono::duration<double>(steady_clock::now() - start).count());
    std::fflush(stdout);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("median: %.2f times as long\n", ratios[kRounds / 2]);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
