#include "client/cli/bench_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A server whose threads have no pause, and a client that waits for it.
BenchResult Busy(double read, double decode) {
  BenchResult result;
  result.plan.set_steps_per_epoch(100);
  result.seconds = 10;
  result.wait_seconds = 9;
  result.batches = 30;
  diagnosis::ServerTimes server;
  server.address = "data-1:7001";
  server.batches = 10;
  server.timed_batches = 10;
  server.waited_seconds = 9;
  server.make_seconds = 9;
  server.read_seconds = read;
  server.decode_seconds = decode;
  result.servers_times = {server};
  return result;
}

// A first run over Parquet files blamed "making batches" while the server read.
TEST(BenchVerdict, NamesReadingOfThreadsWithoutAPause) {
  EXPECT_THAT(
      BenchVerdict(Busy(8, 2), 1),
      AllOf(HasSubstr("waited 90 %: reading, 80 % of the work of the servers'"),
            HasSubstr("read these data for the first time: measure again"),
            Not(HasSubstr("together"))));
  BenchResult epoch = Busy(8, 2);
  epoch.batches = 99;  // and the first
  EXPECT_THAT(BenchVerdict(epoch, 1),
              AllOf(HasSubstr("reading, 80 %"), Not(HasSubstr("first time"))));
  // Two clients side by side have received half an epoch each.
  EXPECT_THAT(BenchVerdict(epoch, 2), HasSubstr("first time"));
}

TEST(BenchVerdict, LeavesOtherWorkToTheVerdict) {
  EXPECT_THAT(
      BenchVerdict(Busy(5, 5), 1),
      AllOf(HasSubstr("reading, decoding and augmenting together on the "
                      "server"),
            Not(HasSubstr("first time"))));
  BenchResult ended = Busy(1, 9);
  ended.ended = absl::UnavailableError("gone");
  EXPECT_THAT(BenchVerdict(ended, 1),
              HasSubstr("before the error: waited 90 %: decoding on"));
}

}  // namespace
}  // namespace millrace::cli
