#include "server/data_tool/report.h"

#include <iostream>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "server/data_tool/commands.h"

namespace millrace {
namespace {

// Longer than any sentence of this program.
constexpr size_t kMaxReadableBytes = 1 << 16;

}  // namespace

std::string Readable(absl::string_view text) {
  return CleanText(text, kMaxReadableBytes);
}

std::string NamingFlag(absl::string_view message, absl::string_view field,
                       absl::string_view flag) {
  if (!absl::StrContains(message, field)) return std::string(message);
  return absl::StrCat(message, " (", flag, ")");
}

absl::Status NamingFlag(const absl::Status& status, absl::string_view field,
                        absl::string_view flag) {
  absl::Status named(status.code(), NamingFlag(status.message(), field, flag));
  status.ForEachPayload(
      [&named](absl::string_view url, const absl::Cord& data) {
        named.SetPayload(url, data);
      });
  return named;
}

int Report(absl::string_view command, const absl::Status& status) {
  if (status.ok()) return kExitOk;
  const ErrorDetail detail = GetErrorDetail(status);
  std::string where;
  if (!detail.shard().empty()) {
    where = absl::StrCat("shard ", detail.shard(), ", row ", detail.row(),
                         " (sample ", detail.sample(), "): ");
  }
  std::cerr << "millrace-data " << command << ": "
            << Readable(absl::StrCat(where, status.message())) << std::endl;
  return IsUsageError(status) ? kExitUsage : kExitFailed;
}

void Warn(absl::string_view command,
          const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    std::cerr << "millrace-data " << command
              << ": warning: " << Readable(sentence) << std::endl;
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
