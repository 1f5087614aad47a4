// A data server of the bench's own on this machine, so that --sweep can try
// settings that only a server's start can change.
//
// Belongs to one thread. The process ends with the object, and with the bench
// however that ends.
//
//   MR_ASSIGN_OR_RETURN(auto server, BenchServer::Start(binary, flags, mask));
//   options.endpoint = server->endpoint();

#ifndef MILLRACE_CLIENT_CLI_BENCH_SERVER_H_
#define MILLRACE_CLIENT_CLI_BENCH_SERVER_H_

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

class BenchServer {
 public:
  // Starts `binary` with `flags` on a free port of 127.0.0.1 and returns when
  // it listens. `mask` is the signal mask that it runs with. FailedPrecondition
  // with what it wrote to standard error when it ends instead; NotFound: there
  // is no such program.
  static absl::StatusOr<std::unique_ptr<BenchServer>> Start(
      const std::string& binary, const std::vector<std::string>& flags,
      const sigset_t& mask);

  // SIGTERM, and SIGKILL when it does not end soon.
  ~BenchServer();
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;

  std::string endpoint() const;

 private:
  explicit BenchServer(std::string folder) : folder_(std::move(folder)) {}

  bool Ended();  // the process is gone
  std::string Errors() const;

  const std::string folder_;  // of the port file and what it logs
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BENCH_SERVER_H_
