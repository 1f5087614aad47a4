// What becomes of gRPC's and protobuf's log lines. What peers can make of them
// is in tests/integration/hostile_log_test.cc.

#include "proto/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LibraryLogsTest : public ::testing::Test {
 protected:
  LibraryLogsTest() {
    // For the process; the tests choose with the environment alone.
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
    unsetenv("GRPC_VERBOSITY");
    unsetenv("GRPC_TRACE");
    unsetenv("GRPC_STACKTRACE_MINLOGLEVEL");
  }
  ~LibraryLogsTest() override { gpr_set_log_function(nullptr); }

  static std::string LoggedBy(const std::function<void()>& work) {
    ::testing::internal::CaptureStderr();
    work();
    return ::testing::internal::GetCapturedStderr();
  }

  static int Lines(const std::string& log) {
    return std::count(log.begin(), log.end(), '\n');
  }
};

TEST_F(LibraryLogsTest, ALineIsOneOfOursAndAFloodIsCounted) {
  RouteLibraryLogs();
  const std::string log = LoggedBy([] {
    for (int i = 0; i < 100; ++i) {
      gpr_log("src/core/parser.cc", 12, GPR_LOG_SEVERITY_ERROR, "bad %s",
              "\nE1123 a.cc:1] forged");
    }
  });
  EXPECT_EQ(Lines(log), 5) << log;
  EXPECT_THAT(log, HasSubstr(" parser.cc:12] gRPC: bad \\nE1123 a.cc:1] "));
  EXPECT_EQ(log.substr(0, 2), "E ");
  SayLinesLeftOut();  // too soon; the end of the process says it
}

TEST_F(LibraryLogsTest, ALongLineIsCut) {
  RouteLibraryLogs();
  const std::string log = LoggedBy([] {
    gpr_log("parser.cc", 13, GPR_LOG_SEVERITY_ERROR, "%s",
            std::string(100'000, 'x').c_str());
  });
  EXPECT_LT(log.size(), 700);
  EXPECT_THAT(log, HasSubstr("(cut)"));
}

TEST_F(LibraryLogsTest, ProtobufHasTheSameLimit) {
  RouteLibraryLogs();
  const std::string log = LoggedBy([] {
    for (int i = 0; i < 100; ++i) GOOGLE_LOG(ERROR) << "no UTF-8 \xff";
  });
  EXPECT_EQ(Lines(log), 5) << log;
  EXPECT_THAT(log, HasSubstr("] protobuf: no UTF-8 \\377\n"));
}

TEST_F(LibraryLogsTest, WhoAsksForMoreGetsEveryLine) {
  for (const auto& [name, value] :
       {std::pair("GRPC_VERBOSITY", "debug"),
        std::pair("GRPC_VERBOSITY", "INFO"), std::pair("GRPC_TRACE", "http")}) {
    setenv(name, value, 1);
    RouteLibraryLogs();
    const std::string log = LoggedBy([] {
      for (int i = 0; i < 100; ++i) {
        gpr_log("trace.cc", 14, GPR_LOG_SEVERITY_DEBUG, "a\n%s",
                std::string(6000, 'x').c_str());
      }
    });
    EXPECT_EQ(Lines(log), 100) << name << "=" << value;
    EXPECT_THAT(log, Not(HasSubstr("(cut)")));
    unsetenv(name);
  }
}

// The default's name asks for nothing more.
TEST_F(LibraryLogsTest, VerbosityErrorIsTheDefault) {
  setenv("GRPC_VERBOSITY", "ERROR", 1);
  RouteLibraryLogs();
  const std::string log = LoggedBy([] {
    for (int i = 0; i < 100; ++i) {
      gpr_log("parser.cc", 15, GPR_LOG_SEVERITY_ERROR, "bad");
    }
  });
  EXPECT_EQ(Lines(log), 5) << log;
}

TEST_F(LibraryLogsTest, StackTracesAreLeftToGrpc) {
  setenv("GRPC_STACKTRACE_MINLOGLEVEL", "ERROR", 1);
  const std::string log = LoggedBy([] {
    RouteLibraryLogs();
    gpr_log("parser.cc", 16, GPR_LOG_SEVERITY_ERROR, "bad");
  });
  EXPECT_THAT(log, HasSubstr("GRPC_STACKTRACE_MINLOGLEVEL is set"));
  EXPECT_THAT(log, Not(HasSubstr("gRPC: bad")));
}

}  // namespace
}  // namespace millrace
