#include "common/standard_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace {

void HoldStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Gets the lowest number that is free, which is `stream`.
    (void)!open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void IgnoreWriteSignals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
      signal(number, SIG_IGN);
    }
  }
}

absl::Status FlushStandardOutput() {
  if (std::fflush(stdout) != 0) {
    const int reason = errno;
    return absl::DataLossError(absl::StrCat("cannot write to standard output: ",
                                            std::strerror(reason)));
  }
  // stdio drops the text of a failed write: a later flush succeeds, and only
  // the stream's mark remembers it.
  if (std::ferror(stdout) != 0) {
    // Nor does stdio keep the reason. What was printed is cut off already, so
    // that one more character does no harm.
    const bool works_now = write(STDOUT_FILENO, "\n", 1) == 1;
    const int reason = errno;
    return absl::DataLossError(absl::StrCat(
        "cannot write to standard output: ",
        works_now ? "an earlier write failed" : std::strerror(reason)));
  }
  return absl::OkStatus();
}

}  // namespace millrace
