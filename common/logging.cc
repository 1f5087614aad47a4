#include "common/logging.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clean_text.h"

namespace millrace {
namespace {

std::atomic<LogSeverity> min_severity{LogSeverity::kINFO};

}  // namespace

void SetMinLogSeverity(LogSeverity severity) { min_severity = severity; }

void WriteLogLine(LogSeverity severity, const char* file, int line,
                  absl::string_view text, size_t max_bytes) {
  if (severity < min_severity.load(std::memory_order_relaxed)) return;
  const char* name = std::strrchr(file, '/');
  const std::string written =
      absl::StrCat(std::string(1, "DIWEF"[static_cast<int>(severity)]), " ",
                   absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                    absl::UTCTimeZone()),
                   " ", gettid(), " ", name == nullptr ? file : name + 1, ":",
                   line, "] ", CleanText(text, max_bytes), "\n");
  // A failed write to standard error cannot be reported.
  [[maybe_unused]] ssize_t bytes =
      write(STDERR_FILENO, written.data(), written.size());
}

namespace internal_logging {

LogMessage::~LogMessage() {
  WriteLogLine(severity_, file_, line_, stream_.str(), kMaxLogBytes);
  if (severity_ == LogSeverity::kFATAL) std::abort();
}

}  // namespace internal_logging
}  // namespace millrace
