#include "common/log_level.h"

#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/clean_text.h"
#include "common/usage_error.h"

namespace millrace {
namespace {

constexpr char kVariable[] = "MILLRACE_LOG_LEVEL";
constexpr size_t kMaxShownBytes = 100;

}  // namespace

absl::StatusOr<LogSeverity> LogLevelOfEnvironment() {
  const char* const set = std::getenv(kVariable);
  const absl::string_view level = set == nullptr ? "" : set;
  if (level == "debug") return LogSeverity::kDEBUG;
  if (level.empty() || level == "info") return LogSeverity::kINFO;
  return UsageError(absl::InvalidArgumentError(absl::StrCat(
      "the environment variable ", kVariable, " is \"",
      CleanText(level, kMaxShownBytes), "\"; set it to debug or info")));
}

}  // namespace millrace
