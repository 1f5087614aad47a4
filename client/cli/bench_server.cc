#include "client/cli/bench_server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/read_file.h"
#include "common/usage_error.h"

namespace millrace::cli {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);
constexpr absl::Duration kStopTimeout = absl::Seconds(5);
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<BenchServer>> BenchServer::Start(
    const std::string& binary, const std::vector<std::string>& flags,
    const sigset_t& mask) {
  if (access(binary.c_str(), X_OK) != 0) {
    return UsageError(absl::NotFoundError(
        absl::StrCat("flag --server=", binary, ": ", std::strerror(errno),
                     "; give the path of millrace-server")));
  }
  const char* const temp = getenv("TMPDIR");
  std::string folder =
      absl::StrCat(temp == nullptr ? "/tmp" : temp, "/millrace-bench-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot create a temporary folder for the server: ",
        std::strerror(errno), "; set TMPDIR to a folder that can be written"));
  }
  std::unique_ptr<BenchServer> server(new BenchServer(folder));
  const std::string port_file = folder + "/port";
  const std::string log = folder + "/log";
  // Everything that allocates memory comes before the fork.
  std::vector<std::string> words = {binary, "--listen=127.0.0.1:0",
                                    "--port_file=" + port_file};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a server: ", std::strerror(errno)));
  }
  if (pid == 0) {
    setpgid(0, 0);  // Ctrl-C in the terminal is for the bench alone
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    const int out = open("/dev/null", O_RDWR);
    const int err = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0 || err < 0 || dup2(out, 0) < 0 || dup2(out, 1) < 0 ||
        dup2(err, 2) < 0) {
      _exit(127);
    }
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  server->pid_ = pid;
  const SteadyTime give_up = SteadyDeadline(kStartTimeout);
  while (true) {
    // Checked before the file: a server that has ended writes no file later.
    const bool ended = server->Ended();
    const auto port = ReadFile(port_file, kMaxTextFileBytes);
    if (port.ok() && absl::SimpleAtoi(*port, &server->port_)) return server;
    if (ended || SteadyTime::clock::now() > give_up) {
      const std::string errors = server->Errors();
      absl::string_view why = absl::StripTrailingAsciiWhitespace(errors);
      absl::ConsumePrefix(&why, "millrace-server: ");
      return absl::FailedPreconditionError(absl::StrCat(
          "the server ",
          ended ? "exited at its start" : "does not listen after 30 s",
          why.empty() ? "" : ": ", why));
    }
    absl::SleepFor(kPollInterval);
  }
}

BenchServer::~BenchServer() {
  if (!Ended()) {
    kill(pid_, SIGTERM);
    const SteadyTime give_up = SteadyDeadline(kStopTimeout);
    while (!Ended()) {
      if (SteadyTime::clock::now() > give_up) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        break;
      }
      absl::SleepFor(kPollInterval);
    }
  }
  std::error_code ignored;  // in a folder for temporary files
  std::filesystem::remove_all(folder_, ignored);
}

std::string BenchServer::endpoint() const {
  return absl::StrCat("127.0.0.1:", port_);
}

bool BenchServer::Ended() {
  if (pid_ < 0) return true;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return false;
  pid_ = -1;
  return true;
}

std::string BenchServer::Errors() const {
  // The last lines name the reason.
  constexpr size_t kMax = 2000;
  std::string text = ReadFile(folder_ + "/log", kMaxTextFileBytes).value_or("");
  if (text.size() > kMax) text.erase(0, text.size() - kMax);
  return text;
}

}  // namespace millrace::cli
