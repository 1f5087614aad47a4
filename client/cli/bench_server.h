// BenchServer starts a data server on this machine, so that --sweep can try
// flags that only the start of a server can change.
//
// It is not for servers that already run: bench reaches these by --endpoint.
//
// One thread. Owns the process, which ends with the object, and with bench even
// when bench is killed.
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

namespace millrace::cli {

class BenchServer {
 public:
  // Starts `binary` with `flags` on a free port of 127.0.0.1 and returns when
  // it listens. `mask` is the signal mask of the server. FailedPrecondition:
  // the server ended; the message has its standard error. NotFound: `binary`
  // cannot be executed.
  static absl::StatusOr<std::unique_ptr<BenchServer>> Start(
      const std::string& binary, const std::vector<std::string>& flags,
      const sigset_t& mask);

  // Sends SIGTERM, and SIGKILL after 5 s.
  ~BenchServer();
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;

  std::string endpoint() const;

 private:
  explicit BenchServer(std::string folder) : folder_(std::move(folder)) {}

  bool Ended();  // the process is gone
  std::string Errors() const;

  const std::string folder_;  // of the port file and the log
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_SERVER_H_
