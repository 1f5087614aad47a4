// The programs behind a link that flips one bit of a connection, anywhere: in
// the beginning of HTTP/2, in headers, in a request, in an answer. A program
// gives the result that it gives without damage, or fails, and never blames the
// user. `millrace status` printed other numbers for every fifth flip, and a job
// whose dataset had lost its preset trained on data that were not normalised.
//
//   --flips=N  flips of each test, at random places (default 120); a quarter of
//              them for bench, which waits for seconds when a stream is silent

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/tcp_gate.h"

namespace millrace {

int flips = 120;  // of a cheap call; set by main() alone

namespace {

using ::millrace::testing::ProgramPath;
using ::millrace::testing::ProgramResult;
using ::millrace::testing::RunProgram;
using ::millrace::testing::TcpGate;
using ::testing::HasSubstr;

constexpr int kSamples = 200;

// A connection without damage: of a byte that never passes.
constexpr uint64_t kNoByte = ~uint64_t{0};
// Of a connection that streams batches, the part with headers and answers.
constexpr uint64_t kMaxByte = 3000;

// `result` gives one line of text that is the same in every run without damage,
// "" for a failure; an error of its own when the failure blames the user.
using Result = std::function<std::string()>;

// The text between `from` and `to`, both included.
std::string Part(const std::string& text, const std::string& from,
                 const std::string& to) {
  const size_t begin = text.find(from);
  const size_t end = text.find(to, begin);
  if (begin == std::string::npos || end == std::string::npos) return "none";
  return text.substr(begin, end + to.size() - begin);
}

class DamagedCallsTest : public testing::ServiceTest {
 protected:
  DamagedCallsTest()
      : server_(
            Serve({Digits(kSamples), "--threads=1", "--memory_budget=128MiB"})),
        gate_(server_->port()) {}

  // `least`: so many of the flips give the result.
  void ExpectSameOrFailure(const Result& result, int flips, int least) {
    gate_.DamageBit(true, kNoByte, 0);
    const std::string good = result();
    ASSERT_FALSE(good.empty()) << "without damage";
    const uint64_t bytes[] = {std::min(gate_.passed(false), kMaxByte),
                              std::min(gate_.passed(true), kMaxByte)};
    ASSERT_GT(bytes[0], 100);
    ASSERT_GT(bytes[1], 100);
    std::mt19937_64 random(2026);
    int same = 0;
    for (int i = 0; i < flips; ++i) {
      const bool to_server = random() % 2 == 0;
      const uint64_t byte = random() % bytes[to_server ? 1 : 0];
      const int bit = static_cast<int>(random() % 8);
      gate_.DamageBit(to_server, byte, bit);
      const std::string got = result();
      if (!got.empty()) {
        EXPECT_EQ(got, good) << "bit " << bit << " of byte " << byte
                             << (to_server ? " to" : " from") << " the server";
        ++same;
      }
    }
    EXPECT_GE(same, least);
  }

  void ExpectBench(const std::vector<std::string>& flags) {
    std::vector<std::string> command = {
        ProgramPath("client/cli/millrace"),
        "bench",
        "--json",
        "--dataset=digits",
        "--batch_size=50",
        "--batches=2",
        "--same_host=off",
        "--timeout=2s",
        absl::StrCat("--endpoint=", gate_.address())};
    command.insert(command.end(), flags.begin(), flags.end());
    ExpectSameOrFailure(
        [&command]() -> std::string {
          const ProgramResult run = RunProgram(command);
          ExpectNoBlame(run.err);
          if (run.exit_code != 0) {
            EXPECT_EQ(run.exit_code, 1) << run.err;
            return "";
          }
          return absl::StrCat(Part(run.out, "\"dataset\"", "\"servers\""),
                              Part(run.out, "\"payload_bytes\"", ","));
        },
        flips / 4, flips / 4 * 8 / 10);
  }

  static void ExpectNoBlame(const std::string& error) {
    for (const char* blame : {"unknown dataset", "preset", "protocol version"}) {
      EXPECT_THAT(error, Not(HasSubstr(blame)));
    }
  }

  const std::unique_ptr<testing::ServerProcess> server_;
  TcpGate gate_;
};

TEST_F(DamagedCallsTest, Status) {
  ExpectSameOrFailure(
      [this]() -> std::string {
        const ProgramResult run = RunProgram(
            {ProgramPath("client/cli/millrace"), "status", "--json",
             "--timeout=300ms", absl::StrCat("--endpoint=", gate_.address())});
        ExpectNoBlame(run.err);
        if (run.exit_code != 0) {
          EXPECT_EQ(run.exit_code, 1) << run.err;
          return "";
        }
        // Without the times and the memory, which change.
        return absl::StrCat(
            Part(run.out, "\"version\"", "\"uptime_seconds\""),
            Part(run.out, "\"threads\"", "\"memory_used_bytes\""),
            Part(run.out, "\"waiting_for_memory\"", "\"shutting_down\""),
            Part(run.out, "\"most_threads\"", "\"memory_reserved_bytes\""),
            Part(run.out, "\"decoder_digest\"", ","));
      },
      flips, flips);
}

TEST_F(DamagedCallsTest, ListDatasets) {
  ExpectSameOrFailure(
      [this]() -> std::string {
        const auto list =
            receive::ListDatasets(gate_.address(), absl::Milliseconds(300));
        if (!list.ok()) return "";
        std::string text;
        for (const DatasetSummary& dataset : *list) {
          absl::StrAppend(&text, dataset.ShortDebugString(), ";");
        }
        return text.empty() ? "none" : text;
      },
      flips, flips);
}

TEST_F(DamagedCallsTest, DescribeDataset) {
  ExpectSameOrFailure(
      [this]() -> std::string {
        const auto info = receive::DescribeDataset(gate_.address(), "digits",
                                                   absl::Milliseconds(300));
        if (info.ok()) return info->ShortDebugString();
        ExpectNoBlame(std::string(info.status().message()));
        return "";
      },
      flips, flips);
}

// A flip in a length of the request left the server waiting for the rest, and
// the job ended after its timeout: "see what keeps it busy".
TEST_F(DamagedCallsTest, Open) {
  HostLoaderOptions options = Options(gate_.address(), 50);
  options.open_timeout = absl::Seconds(1);
  ExpectSameOrFailure(
      [&options]() -> std::string {
        const auto loader = receive::OpenHostLoader(options);
        if (loader.ok()) return (*loader)->plan().plan_hash();
        ExpectNoBlame(std::string(loader.status().message()));
        return "";
      },
      flips, flips);
}

// The first connection asks for the dataset's own preset, and with a preset
// that is named for Open and the batches.
TEST_F(DamagedCallsTest, BenchWithThePresetOfTheDataset) { ExpectBench({}); }
TEST_F(DamagedCallsTest, BenchWithANamedPreset) {
  ExpectBench({"--preset=mnist"});
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view value = argv[i];
    if (!absl::ConsumePrefix(&value, "--flips=") ||
        !absl::SimpleAtoi(value, &millrace::flips)) {
      ADD_FAILURE() << "unknown flag " << argv[i];
    }
  }
  return RUN_ALL_TESTS();
}
