// One line a message to standard error: severity, UTC time, thread, text.
// Debian's absl has no log library; this is what the programs need of one.
//
//   MR_LOG(INFO) << "listening on " << address;
//   MR_LOG_EVERY(WARNING, absl::Seconds(1)) << "no server answers at " << name;
//   MR_CHECK(offset <= size) << "our own bug";   // never for foreign bytes
//
// A message may contain bytes of peers and files: it is one line of readable
// UTF-8 all the same (clean_text.h), of kMaxLogBytes at most.
//
// Thread-safe: a message is written with one write().

#ifndef MILLRACE_COMMON_LOGGING_H_
#define MILLRACE_COMMON_LOGGING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sstream>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

// DEBUG is for tuning and other details that no user acts on.
enum class LogSeverity { kDEBUG, kINFO, kWARNING, kERROR, kFATAL };

// Messages below this severity are dropped. Default: INFO, or DEBUG when the
// environment variable MILLRACE_LOG_LEVEL is "debug".
void SetMinLogSeverity(LogSeverity severity);

// Max size of a message; the rest is cut off.
inline constexpr size_t kMaxLogBytes = 4096;

// What MR_LOG writes, for lines of a library: with the place in its source, and
// a limit of their own. Does not end the process, whatever the severity.
void WriteLogLine(LogSeverity severity, const char* file, int line,
                  absl::string_view text, size_t max_bytes);

namespace internal_logging {

class LogMessage {
 public:
  LogMessage(LogSeverity severity, const char* file, int line)
      : severity_(severity), file_(file), line_(line) {}
  ~LogMessage();  // writes; aborts the process for kFATAL
  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

struct Voidify {
  void operator&(std::ostream&) const {}
};

// True at the first call and then at most once per interval.
class EveryGate {
 public:
  bool Pass(absl::Duration interval) {
    // The steady clock: a system clock that is set back silences no line.
    const int64_t now = absl::ToInt64Nanoseconds(
        absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
    int64_t next = next_ns_.load(std::memory_order_relaxed);
    return now >= next && next_ns_.compare_exchange_strong(
                              next, now + absl::ToInt64Nanoseconds(interval));
  }

 private:
  std::atomic<int64_t> next_ns_{0};
};

}  // namespace internal_logging
}  // namespace millrace

#define MR_LOG(severity)                                        \
  ::millrace::internal_logging::LogMessage(                     \
      ::millrace::LogSeverity::k##severity, __FILE__, __LINE__) \
      .stream()

#define MR_LOG_EVERY(severity, interval)                      \
  if (static ::millrace::internal_logging::EveryGate mr_gate; \
      mr_gate.Pass(interval))                                 \
  MR_LOG(severity)

#define MR_CHECK(condition)                                                  \
  (condition) ? (void)0                                                      \
              : ::millrace::internal_logging::Voidify() &                    \
                    ::millrace::internal_logging::LogMessage(                \
                        ::millrace::LogSeverity::kFATAL, __FILE__, __LINE__) \
                            .stream()                                        \
                        << "check failed: " #condition " "

#endif  // MILLRACE_COMMON_LOGGING_H_
