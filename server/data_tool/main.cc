// millrace-data: makes, shows and checks datasets. See commands.h.

#include <iostream>

#include "absl/status/status.h"
#include "common/cpu_check.h"
#include "common/standard_output.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/interrupt.h"

MR_CHECK_CPU("millrace-data")

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  millrace::CatchInterrupts();
  const int code =
      millrace::RunDataTool(millrace::Args(argv + 1, argv + argc), std::cout);
  const absl::Status printed = millrace::FlushStandardOutput();
  if (code != millrace::kExitOk || printed.ok()) return code;
  std::cerr << "millrace-data: " << printed.message() << std::endl;
  return millrace::kExitFailed;
}
