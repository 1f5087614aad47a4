// millrace-data: makes, shows and checks datasets. See commands.h.

#include <signal.h>

#include <iostream>

#include "common/cpu_check.h"
#include "common/standard_output.h"
#include "server/data_tool/commands.h"

MR_CHECK_CPU("millrace-data")

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  // A file that grows too large, or a reader of standard output that has ended,
  // is an error of the write(), with a sentence. (verify took the death of its
  // child by SIGPIPE for damage of the file.)
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  const int code =
      millrace::RunDataTool(millrace::Args(argv + 1, argv + argc), std::cout);
  const absl::Status printed = millrace::FlushStandardOutput();
  if (code != millrace::kExitOk || printed.ok()) return code;
  std::cerr << "millrace-data: " << printed.message() << std::endl;
  return millrace::ExitCode(printed);
}
