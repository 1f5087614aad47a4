// millrace-data check: the mistakes in a pipeline file, each with its line.

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/data_tool/command_line.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/read_file.h"
#include "server/data_tool/report.h"
#include "server/plan/spec_file.h"

namespace millrace {
namespace {

constexpr char kSummary[] =
    "Checks a pipeline file (protobuf text format, docs/protocol.md) and "
    "names\n"
    "each mistake with its line. What depends on the dataset is checked by "
    "the\n"
    "server.\n\n"
    "  millrace-data check my_pipeline.textproto";

}  // namespace

int RunCheck(const Args& args, std::ostream& out) {
  CommandLine line("check", kSummary, "FILE.textproto");
  int exit_code;
  if (!ParseOrLeave(line, args, "check", out, &exit_code)) return exit_code;
  const std::string& path = line.operands()[0];
  std::string text;
  if (const absl::Status status = ReadWholeFile(path, &text); !status.ok()) {
    return Report("check", status);
  }
  const std::vector<SpecMistake> mistakes = CheckSpecText(text);
  for (const SpecMistake& mistake : mistakes) {
    std::cerr << path;
    if (mistake.line > 0) std::cerr << ":" << mistake.line;
    if (mistake.line > 0 && mistake.column > 0)
      std::cerr << ":" << mistake.column;
    std::cerr << ": " << mistake.message << "\n";
  }
  std::cerr.flush();
  if (!mistakes.empty()) {
    return Report("check", absl::InvalidArgumentError(absl::StrCat(
                               path, " has ", mistakes.size(),
                               mistakes.size() == 1 ? " mistake" : " mistakes",
                               "; correct them")));
  }
  out << path << ": no mistakes\n";
  return kExitOk;
}

}  // namespace millrace
