// ServiceTest is the fixture of tests that run the data service as its users
// do: datasets on disk, servers as processes, the loaders of a job, and what
// such tests compare.
//
// What it is not: a fake. Everything runs but the network between machines.
//
// A server, a dataset or a loader that a test needs and does not get ends that
// test as failed, with the reason: an exception, which GoogleTest reports.
// Tests of failures call ServerProcess::Start() and OpenHostLoader().
//
// Not thread-safe. A server ends with the thread that has started it.
//
//   class FailoverTest : public testing::ServiceTest {};
//
//   TEST_F(FailoverTest, ASecondServerTakesOver) {
//     const auto first = Serve({Digits(1000)});
//     const auto second = Serve({Digits(1000)});
//     const auto loader = Open(Options(EndpointOf(*first, *second), 20));
//     ReceiveEpoch(*loader, 50, [&] { Kill(*first); });
//   }

#ifndef MILLRACE_TESTS_TESTING_SERVICE_H_
#define MILLRACE_TESTS_TESTING_SERVICE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/digest.h"
#include "client/prefetch/host_loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {

class ServiceTest : public ::testing::Test {
 protected:
  // A folder of this test, empty when the test begins, and the path of a file
  // in it.
  const std::string& folder() const { return folder_; }
  std::string Path(const std::string& name) const;

  // "lmdb:PATH" of `samples` samples (tests/testing/digits.h), written once in
  // a program. A test that changes the file writes one of its own.
  static std::string DigitsUri(int samples);
  // The flag that serves them as the dataset "digits".
  static std::string Digits(int samples);

  // Runs millrace-server until it ends by itself.
  static ProgramResult RunServer(std::vector<std::string> flags);
  // Starts a server with these flags. `port` 0 takes a free port.
  static std::unique_ptr<ServerProcess> Serve(
      const std::vector<std::string>& flags, int port = 0);
  // SIGKILL, and wait for the end.
  static void Kill(ServerProcess& server);
  static GetStatusResponse StatusOf(const ServerProcess& server);
  // "127.0.0.1:7001,127.0.0.1:7002".
  static std::string EndpointOf(const ServerProcess& first,
                                const ServerProcess& second);

  // Batches of "digits" with the preset "mnist", shuffled.
  static PipelineSpec DigitsSpec(uint64_t batch_size);
  // Batches of tensors of `shape`, uint8, that a server computes.
  static PipelineSpec SyntheticSpec(uint64_t samples,
                                    const std::vector<int64_t>& shape,
                                    uint64_t batch_size);
  // An epoch of DigitsSpec(): digests of the payloads compared, window of 16.
  static HostLoaderOptions Options(const std::string& endpoint,
                                   uint64_t batch_size);
  static std::unique_ptr<HostLoader> Open(const HostLoaderOptions& options);

  // Receives the `steps` of an epoch, checks that they come in order, and calls
  // `disturb` before the step in the middle. Returns the audit of the epoch. An
  // error fails the test, and the audit ends there.
  static cli::EpochAudit ReceiveEpoch(
      HostLoader& loader, uint64_t steps,
      const std::function<void()>& disturb = [] {});
  // All samples once, in the same order, with the same bytes.
  static void ExpectSameEpoch(const cli::EpochAudit& audit,
                              const cli::EpochAudit& expected,
                              uint64_t samples);

  // The bytes of the next `steps` batches; calls `disturb` as ReceiveEpoch()
  // does. An error ends the test as failed.
  static std::vector<std::string> ReceiveBytes(
      HostLoader& loader, uint64_t steps,
      const std::function<void()>& disturb = [] {});
  static std::string BytesOf(const HostBatch& batch);

  // Waits until `condition` is true; false when it is not after `timeout`.
  static bool Soon(const std::function<bool()>& condition,
                   absl::Duration timeout = absl::Seconds(10));

 private:
  const std::string folder_ = NewTempDir();
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_SERVICE_H_
