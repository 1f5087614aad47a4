// Memory shared between client and server of one machine, beside the loopback
// in the same run. In both, the server writes every batch anew and the client
// reads every byte of it.
//
//   local_bench [--batch_bytes=9633792] [--gigabytes=4] [--rounds=5]
//               [--window=N] [--modes=network,copied,shared]
//
// network: the product's client over gRPC on the loopback.
// copied:  shared memory, copied once by the client (consumers that write).
// shared:  shared memory, read where the server wrote it.
//
// Rounds are interleaved; prints each, and the medians with their ratios to
// the first mode.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "common/byte_budget.h"
#include "common/logging.h"
#include "common/monotonic_now.h"
#include "server/rpc/rpc_server.h"
#include "tests/testing/fake_engine.h"

namespace millrace {
namespace {

// The link is there, slots and connections are warm.
constexpr uint64_t kWarmUpBatches = 100;

struct Flags {
  uint64_t batch_bytes = 64 * 224 * 224 * 3;
  double gigabytes = 4;
  int rounds = 5;
  uint32_t window = 0;  // 0: the product's default
  std::vector<std::string> modes = {"network", "copied", "shared"};
};

struct Result {
  double gigabytes_per_second = 0;
  double client_cpu = 0;  // seconds a GB
  double server_cpu = 0;
  double shared = 0;  // part of the batches that came in shared memory
};

double Seconds(const rusage& usage) {
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Reads every byte, as cheaply as that can be: it is the way to here that is
// measured.
uint64_t ReadAll(absl::Span<const uint8_t> bytes) {
  constexpr size_t kWords = 8;
  uint64_t sums[kWords] = {};
  size_t at = 0;
  for (; at + sizeof(sums) <= bytes.size(); at += sizeof(sums)) {
    uint64_t words[kWords];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (size_t i = 0; i < kWords; ++i) sums[i] += words[i];
  }
  uint64_t sum = 0;
  for (; at < bytes.size(); ++at) sum += bytes[at];
  for (const uint64_t part : sums) sum += part;
  return sum;
}

double OwnCpu() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage);
}

// The server, in a process of its own. A byte in `ask` asks for the CPU seconds
// that it has used.
[[noreturn]] void RunServer(const Flags& flags, int ask, int answer) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ByteBudget budget(uint64_t{1} << 30);
  // Small enough for the fastest cache: the memory that is written is the
  // batch's.
  std::string content(16 << 10, '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i * 2654435761u >> 24);
  }
  testing::FakeEngine engine(
      {.budget = &budget,
       .payload_bytes = flags.batch_bytes,
       .steps_per_epoch = uint64_t{1} << 40,
       .copy_of = std::make_shared<std::string>(std::move(content)),
       .pool = std::make_shared<batch::BufferPool>(uint64_t{256} << 20)});
  auto server = rpc::RpcServer::Start({.listen = "127.0.0.1:0",
                                       .engine = &engine,
                                       .budget = &budget,
                                       .local_socket = ""});
  MR_CHECK(server.ok()) << server.status();
  const int port = (*server)->port();
  MR_CHECK(write(answer, &port, sizeof(port)) == sizeof(port));
  char byte = 0;
  while (read(ask, &byte, 1) == 1) {
    const double cpu = OwnCpu();
    MR_CHECK(write(answer, &cpu, sizeof(cpu)) == sizeof(cpu));
  }
  std::_Exit(0);
}

double Ask(int ask, int answer) {
  double cpu = 0;
  MR_CHECK(write(ask, "x", 1) == 1);
  MR_CHECK(read(answer, &cpu, sizeof(cpu)) == sizeof(cpu));
  return cpu;
}

uint64_t SharedBatches(const std::string& address) {
  const auto servers = receive::GetServerStatus(address);
  MR_CHECK(servers.ok() && servers->front().status.ok());
  return servers->front().status->same_host_batches_sent();
}

Result Measure(const Flags& flags, const std::string& mode) {
  int ask[2], answer[2];
  MR_CHECK(pipe(ask) == 0 && pipe(answer) == 0);
  // Before this process uses gRPC.
  const pid_t server = fork();
  if (server == 0) {
    close(ask[1]);
    RunServer(flags, ask[0], answer[1]);
  }
  int port = 0;
  MR_CHECK(read(answer[0], &port, sizeof(port)) == sizeof(port));
  HostLoaderOptions options;
  options.endpoint = absl::StrCat("127.0.0.1:", port);
  options.epochs = 0;
  options.window = flags.window;
  options.same_host = mode == "network" ? SameHost::kOff : SameHost::kRequire;
  options.read_only_payload = mode == "shared";
  // The figures are those of the memory: a digest reads it once more.
  options.verify_payload = false;
  auto loader = receive::OpenHostLoader(options);
  MR_CHECK(loader.ok()) << loader.status();
  // Read by nobody, and yet the compiler may not leave the reading out.
  volatile uint64_t sum = 0;
  const auto take = [&] {
    auto batch = (*loader)->Next();
    MR_CHECK(batch.ok()) << batch.status();
    sum = ReadAll(batch->payload);
  };
  for (uint64_t i = 0; i < kWarmUpBatches; ++i) take();
  const uint64_t shared_before = SharedBatches(options.endpoint);
  const uint64_t batches = std::max<uint64_t>(
      1, static_cast<uint64_t>(flags.gigabytes * 1e9 /
                               static_cast<double>(flags.batch_bytes)));
  const double server_before = Ask(ask[1], answer[0]);
  const double client_before = OwnCpu();
  const absl::Time start = MonotonicNow();
  for (uint64_t i = 0; i < batches; ++i) take();
  const double seconds = absl::ToDoubleSeconds(MonotonicNow() - start);
  const double client = OwnCpu() - client_before;
  const double served = Ask(ask[1], answer[0]) - server_before;
  const uint64_t shared = SharedBatches(options.endpoint) - shared_before;
  (*loader)->Close();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  const double gigabytes =
      1e-9 * static_cast<double>(batches * flags.batch_bytes);
  return {gigabytes / seconds, client / gigabytes, served / gigabytes,
          std::min(1.0, static_cast<double>(shared) / batches)};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    bool good = false;
    if (absl::ConsumePrefix(&text, "--batch_bytes=")) {
      good = absl::SimpleAtoi(text, &flags.batch_bytes) &&
             flags.batch_bytes >= sizeof(uint64_t);
    } else if (absl::ConsumePrefix(&text, "--gigabytes=")) {
      good = absl::SimpleAtod(text, &flags.gigabytes);
    } else if (absl::ConsumePrefix(&text, "--rounds=")) {
      good = absl::SimpleAtoi(text, &flags.rounds) && flags.rounds > 0;
    } else if (absl::ConsumePrefix(&text, "--window=")) {
      good = absl::SimpleAtoi(text, &flags.window);
    } else if (absl::ConsumePrefix(&text, "--modes=")) {
      flags.modes = absl::StrSplit(text, ',');
      good = std::all_of(
          flags.modes.begin(), flags.modes.end(), [](const std::string& m) {
            return m == "network" || m == "copied" || m == "shared";
          });
    }
    if (!good) {
      std::fprintf(stderr, "local_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  std::map<std::string, std::vector<Result>> results;
  for (int round = 0; round < flags.rounds; ++round) {
    for (const std::string& mode : flags.modes) {
      // A process each, because gRPC must not be forked.
      int out[2];
      MR_CHECK(pipe(out) == 0);
      const pid_t child = fork();
      if (child == 0) {
        SetMinLogSeverity(LogSeverity::kWARNING);
        const Result result = Measure(flags, mode);
        MR_CHECK(write(out[1], &result, sizeof(result)) == sizeof(result));
        std::_Exit(0);
      }
      close(out[1]);
      Result result;
      const bool whole =
          read(out[0], &result, sizeof(result)) == sizeof(result);
      close(out[0]);
      waitpid(child, nullptr, 0);
      if (!whole) return 1;
      std::printf(
          "%-8s %6.2f GB/s, client %.3f CPU-s/GB, server %.3f CPU-s/GB, "
          "%.0f %% shared\n",
          mode.c_str(), result.gigabytes_per_second, result.client_cpu,
          result.server_cpu, 100 * result.shared);
      std::fflush(stdout);
      results[mode].push_back(result);
    }
  }
  const auto median = [&](const std::string& mode, double Result::*member) {
    std::vector<double> values;
    for (const Result& result : results[mode]) {
      values.push_back(result.*member);
    }
    return Median(std::move(values));
  };
  std::printf("\nmedian of %d rounds, batches of %lu bytes\n", flags.rounds,
              static_cast<unsigned long>(flags.batch_bytes));
  const std::string& first = flags.modes.front();
  for (const std::string& mode : flags.modes) {
    const double rate = median(mode, &Result::gigabytes_per_second);
    const double client = median(mode, &Result::client_cpu);
    const double server = median(mode, &Result::server_cpu);
    std::printf(
        "%-8s %6.2f GB/s (x %.2f), client %.3f CPU-s/GB (x %.2f), server %.3f "
        "CPU-s/GB (x %.2f)\n",
        mode.c_str(), rate, rate / median(first, &Result::gigabytes_per_second),
        client, client / median(first, &Result::client_cpu), server,
        server / median(first, &Result::server_cpu));
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
