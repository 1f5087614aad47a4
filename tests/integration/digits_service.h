// DigitsService is what tests of running jobs begin with: a dataset of digits
// on disk, real servers of it, the options of a loader over them. With it come
// the few things that such tests do with a loader and a server.
//
// Thread-safe after construction, except that a server ends with the thread
// that has started it. What cannot be set up fails the test and ends it.
//
//   const DigitsService service(20'000);
//   auto server = service.Serve();
//   auto loader = OpenHostLoader(service.Options(server->address(), 20));
//   const EpochAudit audit = ReceiveEpoch(**loader, 1000);

#ifndef MILLRACE_TESTS_INTEGRATION_DIGITS_SERVICE_H_
#define MILLRACE_TESTS_INTEGRATION_DIGITS_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/digest.h"
#include "client/prefetch/host_loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "tests/testing/server_process.h"

namespace millrace::testing {

class DigitsService {
 public:
  // `flags` are those of every server.
  explicit DigitsService(int samples,
                         std::vector<std::string> flags = {
                             "--threads=2", "--memory_budget=256MiB"});

  // A server of the dataset "digits". `port` 0 takes a free one.
  std::unique_ptr<ServerProcess> Serve(
      const std::vector<std::string>& more_flags = {}, int port = 0) const;

  // An epoch of it with the preset "mnist", shuffled, digests of the payloads
  // compared; window of 16.
  HostLoaderOptions Options(const std::string& endpoint,
                            uint64_t batch_size) const;

  int samples() const { return samples_; }

 private:
  const int samples_;
  std::vector<std::string> flags_;
};

// "127.0.0.1:7001,127.0.0.1:7002".
std::string EndpointOf(const ServerProcess& first, const ServerProcess& second);

// SIGKILL, and wait for the end.
void Kill(ServerProcess& server);

GetStatusResponse StatusOf(const ServerProcess& server);

// Waits until it is so; false after ten seconds.
bool Soon(const std::function<bool()>& condition);

// Receives the `steps` of an epoch, checks that they come in order, and calls
// `disturb` at the half of it. The audit of what has come; on an error, which
// fails the test, until then.
EpochAudit ReceiveEpoch(
    HostLoader& loader, uint64_t steps,
    const std::function<void()>& disturb = [] {});

// All samples once, in the same order, with the same bytes.
void ExpectSameEpoch(const EpochAudit& audit, const EpochAudit& expected,
                     uint64_t samples);

std::string BytesOf(const HostBatch& batch);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_INTEGRATION_DIGITS_SERVICE_H_
