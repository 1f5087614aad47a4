// millrace: questions and measurements from the client's side.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "common/malloc_tuning.h"
#include "common/standard_output.h"
#include "common/version.h"
#include "proto/error_detail.h"
#include "proto/flag_hint.h"
#include "proto/library_logs.h"

namespace {

constexpr char kHelp[] =
    "millrace: the client's side of a Millrace data service\n"
    "\n"
    "  millrace status   the state of the data servers\n"
    "  millrace bench    how fast batches arrive here\n"
    "  millrace audit    prove that an epoch, or a whole job, is delivered "
    "exactly once\n"
    "  millrace replay   write any batch of a job as files\n"
    "  millrace doctor   what limits a training run, and whether a change "
    "helped\n"
    "\n"
    "`millrace COMMAND --help` lists the flags of a command.\n";

int Show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  const absl::Status written = millrace::FlushStandardOutput();
  if (written.ok()) return 0;
  std::fprintf(stderr, "millrace: %s\n",
               millrace::FormatError(written).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  millrace::SetMallocThresholds();
  millrace::RouteLibraryLogs();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  const std::string command = arguments[0];
  arguments.erase(arguments.begin());
  const bool help = command == "--help" || command == "-h" || command == "help";
  if (help || command == "--version") {
    if (!arguments.empty()) {
      std::fprintf(stderr,
                   "millrace: unexpected argument `%s` after %s; `millrace "
                   "COMMAND --help` lists the flags of a command\n",
                   arguments[0].c_str(), command.c_str());
      return 2;
    }
    return Show(
        help ? kHelp
             : absl::StrCat("millrace ", millrace::kMillraceVersion, "\n"));
  }
  absl::Status status;
  if (command == "status") {
    status = millrace::RunStatus(arguments);
  } else if (command == "bench") {
    status = millrace::RunBench(arguments);
  } else if (command == "audit") {
    status = millrace::RunAudit(arguments);
  } else if (command == "replay") {
    status = millrace::RunReplay(arguments);
  } else if (command == "doctor") {
    status = millrace::RunDoctor(arguments);
  } else {
    std::fprintf(stderr, "millrace: unknown command `%s`\n\n%s",
                 command.c_str(), kHelp);
    return 2;
  }
  if (status.ok()) status = millrace::FlushStandardOutput();
  if (status.ok()) return 0;
  status = millrace::WithOwnFlag(status, {"outputs", "last_batch"});
  if (millrace::IsUsageError(status)) {
    std::fprintf(stderr, "millrace %s: %s\n", command.c_str(),
                 std::string(status.message()).c_str());
    return 2;
  }
  std::fprintf(stderr, "millrace %s: %s\n", command.c_str(),
               millrace::FormatError(status).c_str());
  return 1;
}
