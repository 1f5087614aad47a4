// Chooses the subcommand.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "server/data_tool/commands.h"

namespace millrace {
namespace {

constexpr char kUsage[] =
    "usage: millrace-data COMMAND [flags] [operand]\n\n"
    "commands:\n"
    "  pack      pack original files into a dataset (LMDB or Parquet)\n"
    "  inspect   say what a dataset is\n"
    "  verify    read a whole dataset and compare its content hash\n"
    "  check     check a pipeline file\n"
    "  preview   show a batch before and after its transforms\n\n"
    "`millrace-data COMMAND --help` says more about each.\n";

}  // namespace

int RunDataTool(const Args& args, std::ostream& out) {
  if (args.empty()) {
    std::cerr << kUsage;
    return kExitUsage;
  }
  const std::string& command = args[0];
  const Args rest(args.begin() + 1, args.end());
  if (command == "pack") return RunPack(rest, out);
  if (command == "inspect") return RunInspect(rest, out);
  if (command == "verify") return RunVerify(rest, out);
  if (command == "check") return RunCheck(rest, out);
  if (command == "preview") return RunPreview(rest, out);
  if (command == "help" || command == "--help" || command == "-h") {
    out << kUsage;
    return kExitOk;
  }
  if (command == "--version") {
    out << "millrace-data " << kMillraceVersion << "\n";
    return kExitOk;
  }
  std::cerr << "millrace-data: there is no command '" << command
            << "'; the commands are pack, inspect, verify, check and preview, and "
               "`millrace-data --help` says what they do"
            << std::endl;
  return kExitUsage;
}

}  // namespace millrace
