#include "server/data_tool/report.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "server/data_tool/commands.h"

namespace millrace {

int Report(absl::string_view command, const absl::Status& status) {
  if (status.ok()) return kExitOk;
  const ErrorDetail detail = GetErrorDetail(status);
  std::string where;
  if (!detail.shard().empty()) {
    where = absl::StrCat("shard ", detail.shard(), ", row ", detail.row(),
                         " (sample ", detail.sample(), "): ");
  }
  std::cerr << "millrace-data " << command << ": " << where << status.message()
            << std::endl;
  return IsUsageError(status) ? kExitUsage : kExitFailed;
}

void Warn(absl::string_view command,
          const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    std::cerr << "millrace-data " << command << ": warning: " << sentence
              << std::endl;
  }
}

bool ParseOrLeave(CommandLine& line, const std::vector<std::string>& args,
                  absl::string_view command, std::ostream& out,
                  int* exit_code) {
  if (const absl::Status status = line.Parse(args); !status.ok()) {
    Report(command, status);
    *exit_code = kExitUsage;
    return false;
  }
  if (line.help_wanted()) {
    out << line.Help();
    *exit_code = kExitOk;
    return false;
  }
  return true;
}

}  // namespace millrace
