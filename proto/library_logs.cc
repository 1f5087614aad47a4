#include "proto/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/line_limit.h"
#include "common/logging.h"
#include "common/mutex.h"

namespace millrace {
namespace {

constexpr LineLimit::Options kLimit;
// Of a line: what a peer has sent is rarely of use beyond.
constexpr size_t kMaxBytes = 512;
// The same where every line is wanted: traces dump whole frames.
constexpr size_t kMaxWantedBytes = 64 << 10;

// Never destroyed: threads of gRPC log until the process has ended.
LineLimit& Limit() {
  static LineLimit& limit = *new LineLimit(kLimit);
  return limit;
}

absl::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void SayLinesLeftOutBy(SteadyTime now) {
  for (const LineLimit::LeftOut& some : Limit().TakeLeftOut(now)) {
    WriteLogLine(
        LogSeverity::kWARNING, some.file.c_str(), some.line,
        absl::StrCat(some.lines, " more of these lines were suppressed"),
        kMaxBytes);
  }
}

void WriteLimited(LogSeverity severity, const char* file, int line,
                  const std::string& text) {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (const auto before = Limit().Pass(file, line, now)) {
    // The count stands first: the text may be cut.
    WriteLogLine(
        severity, file, line,
        *before == 0
            ? text
            : absl::StrCat("(", *before,
                           " more of these lines were suppressed before) ",
                           text),
        kMaxBytes);
  }
}

LogSeverity SeverityOf(gpr_log_severity severity) {
  return severity == GPR_LOG_SEVERITY_ERROR ? LogSeverity::kERROR
                                            : LogSeverity::kINFO;
}

void WriteGrpcLine(gpr_log_func_args* args) {
  WriteLimited(SeverityOf(args->severity), args->file, args->line,
               absl::StrCat("gRPC: ", args->message));
}

void WriteWantedGrpcLine(gpr_log_func_args* args) {
  WriteLogLine(SeverityOf(args->severity), args->file, args->line,
               absl::StrCat("gRPC: ", args->message), kMaxWantedBytes);
}

void WriteProtobufLine(google::protobuf::LogLevel level, const char* file,
                       int line, const std::string& message) {
  static constexpr LogSeverity kSeverities[] = {
      LogSeverity::kINFO, LogSeverity::kWARNING, LogSeverity::kERROR,
      LogSeverity::kFATAL};  // protobuf itself ends the process after the last
  WriteLimited(kSeverities[level], file, line,
               absl::StrCat("protobuf: ", message));
}

}  // namespace

void RouteLibraryLogs() {
  google::protobuf::SetLogHandler(&WriteProtobufLine);
  std::atexit([] {
    SayLinesLeftOutBy(std::chrono::steady_clock::now() + kLimit.interval);
  });
  if (!Environment("GRPC_STACKTRACE_MINLOGLEVEL").empty()) {
    MR_LOG(WARNING) << "gRPC writes its log itself because "
                       "GRPC_STACKTRACE_MINLOGLEVEL is set: the log has no "
                       "limit and contains the unchecked bytes of peers";
    return;
  }
  const absl::string_view verbosity = Environment("GRPC_VERBOSITY");
  const bool wanted = absl::EqualsIgnoreCase(verbosity, "info") ||
                      absl::EqualsIgnoreCase(verbosity, "debug") ||
                      !Environment("GRPC_TRACE").empty();
  gpr_set_log_function(wanted ? &WriteWantedGrpcLine : &WriteGrpcLine);
}

void SayLinesLeftOut() { SayLinesLeftOutBy(std::chrono::steady_clock::now()); }

}  // namespace millrace
