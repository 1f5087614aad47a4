#include "tests/testing/server_process.h"

#include <signal.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace millrace::testing {

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const std::vector<std::string>& flags, int port) {
  const std::string port_file = NewTempDir() + "/port";
  std::vector<std::string> arguments = {
      ProgramPath("server/millrace-server"),
      absl::StrCat("--listen=127.0.0.1:", port), "--port_file=" + port_file};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::unique_ptr<ServerProcess> server(new ServerProcess(arguments));
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (true) {
    // Looked at before the file: a server that has just ended wrote none later.
    const bool running = server->process_.Running();
    if (absl::SimpleAtoi(ReadFile(port_file), &server->port_)) return server;
    if (!running || absl::Now() > give_up) {
      return absl::InternalError(absl::StrCat("the server ",
                                              running ? "hangs" : "has ended",
                                              ": ", server->process_.Stderr()));
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
}

std::string ServerProcess::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

int ServerProcess::Stop() {
  process_.Signal(SIGTERM);
  return process_.Wait();
}

}  // namespace millrace::testing
