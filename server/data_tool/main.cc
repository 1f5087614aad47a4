// millrace-data: makes, shows and checks datasets. See commands.h.

#include <iostream>

#include "common/cpu_check.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/interrupt.h"

MR_CHECK_CPU("millrace-data")

int main(int argc, char** argv) {
  millrace::CatchInterrupts();
  const int code =
      millrace::RunDataTool(millrace::Args(argv + 1, argv + argc), std::cout);
  std::cout.flush();
  if (code == millrace::kExitOk && !std::cout) {
    std::cerr << "millrace-data: cannot write the output; is the disk full?"
              << std::endl;
    return millrace::kExitFailed;
  }
  return code;
}
