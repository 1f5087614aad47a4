#include "common/logging.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace millrace {
namespace {

std::atomic<LogSeverity> min_severity{LogSeverity::kINFO};

}  // namespace

void SetMinLogSeverity(LogSeverity severity) { min_severity = severity; }

namespace internal_logging {

LogMessage::LogMessage(LogSeverity severity, const char* file, int line)
    : severity_(severity) {
  const char* name = std::strrchr(file, '/');
  stream_ << "IWEF"[static_cast<int>(severity)] << ' '
          << absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                              absl::UTCTimeZone())
          << ' ' << gettid() << ' ' << (name == nullptr ? file : name + 1)
          << ':' << line << "] ";
}

LogMessage::~LogMessage() {
  if (severity_ >= min_severity.load(std::memory_order_relaxed)) {
    stream_ << '\n';
    const std::string text = stream_.str();
    // Nothing can be done about a standard error that does not take the text.
    [[maybe_unused]] ssize_t written =
        write(STDERR_FILENO, text.data(), text.size());
  }
  if (severity_ == LogSeverity::kFATAL) std::abort();
}

}  // namespace internal_logging
}  // namespace millrace
