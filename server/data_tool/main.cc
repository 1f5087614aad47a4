// millrace-data: makes, shows and checks datasets. See commands.h.

#include <iostream>

#include "common/cpu_check.h"
#include "common/log_level.h"
#include "common/program/exit_code.h"
#include "common/standard_output.h"
#include "server/data_tool/commands.h"

MR_CHECK_CPU("millrace-data")

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  // Otherwise verify would report the death of its child by SIGPIPE as damage
  // of the file.
  millrace::IgnoreWriteSignals();
  const absl::Status level = millrace::UseLogLevelOfEnvironment();
  if (!level.ok()) {
    std::cerr << "millrace-data: " << level.message() << std::endl;
    return millrace::program::kExitUsage;
  }
  const int code =
      millrace::data_tool::RunDataTool({argv + 1, argv + argc}, std::cout);
  const absl::Status printed = millrace::FlushStandardOutput();
  if (code != millrace::program::kExitOk || printed.ok()) return code;
  std::cerr << "millrace-data: " << printed.message() << std::endl;
  return millrace::program::ExitCode(printed);
}
