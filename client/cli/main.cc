// millrace: state, measurements and proofs of a data service, as a client sees
// it.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/commands.h"
#include "common/log_level.h"
#include "common/malloc_tuning.h"
#include "common/program/command_table.h"
#include "common/program/exit_code.h"
#include "common/standard_output.h"
#include "common/version.h"
#include "proto/bad_sample_hint.h"
#include "proto/error_detail.h"
#include "proto/flag_hint.h"
#include "proto/library_logs.h"

namespace millrace::cli {
namespace {

using Run = absl::Status (*)(absl::Span<const std::string>);

// Prints an error of `command` and returns the exit code.
int Conclude(const std::string& command, const absl::Status& status) {
  if (status.ok()) return program::kExitOk;
  // A usage error has no place in a dataset.
  std::fprintf(stderr, "%s: %s\n", command.c_str(),
               IsUsageError(status) ? std::string(status.message()).c_str()
                                    : FormatError(status).c_str());
  return program::ExitCode(status);
}

// The exit code of a command that has printed its result.
int Printed(const std::string& command) {
  const absl::Status printed = FlushStandardOutput();
  if (printed.ok()) return program::kExitOk;
  // The status code would add nothing.
  std::fprintf(stderr, "%s: %s\n", command.c_str(),
               std::string(printed.message()).c_str());
  return program::ExitCode(printed);
}

program::CommandTable::Row Row(const std::string& name,
                               const std::string& summary, Run run) {
  return {name, summary, [name, run](const std::vector<std::string>& rest) {
            const absl::Status status = run(rest);
            if (status.ok()) return Printed("millrace " + name);
            return Conclude("millrace " + name,
                            WithBadSampleHint(WithOwnFlag(
                                status, {"outputs", "last_batch"})));
          }};
}

int Main(const std::vector<std::string>& arguments) {
  if (const absl::Status level = UseLogLevelOfEnvironment(); !level.ok()) {
    return Conclude("millrace", level);
  }
  const program::CommandTable table(
      {.program = "millrace",
       .summary = "Measures and checks a Millrace data service as its client.",
       .version = kMillraceVersion,
       .commands =
           {Row("status", "Print the state and the load of data servers.",
                &RunStatus),
            Row("bench", "Measure the rate of batches and name the bottleneck.",
                &RunBench),
            Row("audit",
                "Prove that an epoch, or a whole job, is delivered exactly "
                "once.",
                &RunAudit),
            Row("replay", "Write any batch of a job as files.", &RunReplay),
            Row("doctor",
                "Say what limits a training run, and whether a change helped.",
                &RunDoctor)},
       .examples = {"millrace status --endpoint=data-1:7001,data-2:7001",
                    "millrace bench --endpoint=data-1:7001 --dataset=photos",
                    "millrace doctor --run=run.json"}});
  const int code = table.Run(arguments, std::cout);
  if (code != program::kExitOk) return code;
  return Printed("millrace");
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  millrace::IgnoreWriteSignals();
  millrace::KeepFreedMemory();
  millrace::RouteLibraryLogs();
  return millrace::cli::Main({argv + 1, argv + argc});
}
