// millrace: questions and measurements from the client's side.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/commands.h"
#include "common/malloc_tuning.h"
#include "common/program/command_table.h"
#include "common/program/exit_code.h"
#include "common/standard_output.h"
#include "common/version.h"
#include "proto/error_detail.h"
#include "proto/flag_hint.h"
#include "proto/library_logs.h"

namespace millrace {
namespace {

using Run = absl::Status (*)(absl::Span<const std::string>);

// What `who` ends with.
int Conclude(const std::string& who, const absl::Status& status) {
  if (status.ok()) return kExitOk;
  // A mistake of use has no place in a dataset to name.
  std::fprintf(stderr, "%s: %s\n", who.c_str(),
               IsUsageError(status) ? std::string(status.message()).c_str()
                                    : FormatError(status).c_str());
  return ExitCode(status);
}

CommandTable::Row Row(const std::string& name, const std::string& summary,
                      Run run) {
  return {name, summary, [name, run](const std::vector<std::string>& rest) {
            absl::Status status = run(rest);
            if (status.ok()) status = FlushStandardOutput();
            return Conclude("millrace " + name,
                            WithOwnFlag(status, {"outputs", "last_batch"}));
          }};
}

int Main(const std::vector<std::string>& arguments) {
  const CommandTable table(
      {.program = "millrace",
       .summary = "The client's side of a Millrace data service.",
       .version = kMillraceVersion,
       .commands = {
           Row("status", "Print the state of the data servers.", &RunStatus),
           Row("bench", "Measure how fast batches arrive here.", &RunBench),
           Row("audit",
               "Prove that an epoch, or a whole job, is delivered exactly "
               "once.",
               &RunAudit),
           Row("replay", "Write any batch of a job as files.", &RunReplay),
           Row("doctor",
               "Say what limits a training run, and whether a change helped.",
               &RunDoctor)}});
  const int code = table.Run(arguments, std::cout);
  if (code != kExitOk) return code;
  return Conclude("millrace", FlushStandardOutput());
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  millrace::SetMallocThresholds();
  millrace::RouteLibraryLogs();
  return millrace::Main({argv + 1, argv + argc});
}
