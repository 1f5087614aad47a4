#include "common/log_level.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/usage_error.h"

namespace millrace {
namespace {

constexpr char kVariable[] = "MILLRACE_LOG_LEVEL";
constexpr size_t kMaxShownBytes = 100;

}  // namespace

absl::StatusOr<LogSeverity> ParseLogLevel(absl::string_view word) {
  if (word == "debug") return LogSeverity::kDEBUG;
  if (word == "info") return LogSeverity::kINFO;
  if (word == "warning") return LogSeverity::kWARNING;
  if (word == "error") return LogSeverity::kERROR;
  return absl::InvalidArgumentError(
      absl::StrCat("log level \"", CleanText(word, kMaxShownBytes),
                   "\": expected debug, info, warning or error"));
}

absl::Status UseLogLevelOfEnvironment() {
  static std::atomic<bool> called{false};
  const bool first = !called.exchange(true);
  const char* const set = std::getenv(kVariable);
  const absl::string_view level = set == nullptr ? "" : set;
  if (level.empty()) return absl::OkStatus();
  const absl::StatusOr<LogSeverity> severity = ParseLogLevel(level);
  if (severity.ok() && *severity <= LogSeverity::kINFO) {
    if (first) SetMinLogSeverity(*severity);
    return absl::OkStatus();
  }
  return UsageError(absl::InvalidArgumentError(absl::StrCat(
      "the environment variable ", kVariable, " is \"",
      CleanText(level, kMaxShownBytes), "\"; set it to debug or info")));
}

}  // namespace millrace
