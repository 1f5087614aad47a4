#include "common/logging.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

namespace millrace {
namespace {

std::atomic<LogSeverity> min_severity{LogSeverity::kINFO};

// Of a line; what peers send may stand in it, so it may be anything.
constexpr size_t kMaxLineBytes = 4096;

// One line, whatever was put into it.
std::string OneLine(absl::string_view text) {
  const bool cut = text.size() > kMaxLineBytes;
  if (cut) text = text.substr(0, kMaxLineBytes);
  std::string line;
  line.reserve(text.size() + 32);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      line.push_back(c);
    } else {
      absl::StrAppend(&line, absl::CEscape(absl::string_view(&c, 1)));
    }
  }
  if (cut) line += " ... (cut)";
  line += '\n';
  return line;
}

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
    const std::string text = OneLine(stream_.str());
    // Nothing can be done about a standard error that does not take the text.
    [[maybe_unused]] ssize_t written =
        write(STDERR_FILENO, text.data(), text.size());
  }
  if (severity_ == LogSeverity::kFATAL) std::abort();
}

}  // namespace internal_logging
}  // namespace millrace
