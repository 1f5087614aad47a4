// A real millrace-server for tests, on a free port of 127.0.0.1. The test
// names //server:millrace-server in `data`.
//
//   auto server = ServerProcess::Start({"--dataset=d=lmdb:" + path});
//   ASSERT_TRUE(server.ok()) << server.status();
//   Connect((*server)->address());
//   (*server)->process().Signal(SIGKILL);

#ifndef MILLRACE_TESTS_TESTING_SERVER_PROCESS_H_
#define MILLRACE_TESTS_TESTING_SERVER_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {

class ServerProcess {
 public:
  // Returns when it listens. Internal, with what it wrote to standard error,
  // when it ended instead. `port` 0 takes a free one; a restart may ask for
  // the one before.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      const std::vector<std::string>& flags, int port = 0);

  int port() const { return port_; }
  std::string address() const;
  Subprocess& process() { return process_; }

  // SIGTERM and wait; the exit code.
  int Stop();

 private:
  explicit ServerProcess(const std::vector<std::string>& arguments)
      : process_(arguments) {}

  Subprocess process_;
  int port_ = 0;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_SERVER_PROCESS_H_
