#include "common/standard_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Prints to a device that is always full, then flushes `times` times. Runs in
// a process of its own; exits with 0 when the last flush failed.
void PrintToAFullDevice(int times) {
  if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(3);
  std::fputs("some text\n", stdout);
  absl::Status status;
  for (int i = 0; i < times; ++i) status = FlushStandardOutput();
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(status.ok() ? 1 : 0);
}

TEST(StandardOutputTest, NamesTheReason) {
  EXPECT_EXIT(PrintToAFullDevice(1), ::testing::ExitedWithCode(0),
              HasSubstr("standard output: No space left on device"));
}

// stdio forgets the text of a failed write, and its next flush succeeds.
// Of a help text that is longer than its buffer the first part fails before the
// flush; the error had no reason then.
TEST(StandardOutputTest, RemembersAnEarlierFailure) {
  EXPECT_EXIT(PrintToAFullDevice(2), ::testing::ExitedWithCode(0),
              HasSubstr("standard output: No space left on device"));
}

void PrintToADeviceThatHasRoomAgain() {
  if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(3);
  std::fputs("some text\n", stdout);
  if (std::fflush(stdout) == 0) std::exit(4);
  const int file = open("/dev/null", O_WRONLY);
  if (dup2(file, STDOUT_FILENO) != STDOUT_FILENO) std::exit(5);
  const absl::Status status = FlushStandardOutput();
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(status.ok() ? 1 : 0);
}

TEST(StandardOutputTest, RemembersAFailureOfAStreamThatWorksAgain) {
  EXPECT_EXIT(PrintToADeviceThatHasRoomAgain(), ::testing::ExitedWithCode(0),
              HasSubstr("an earlier write failed"));
}

// Starts as `program >&-` does. Exits with 0 when nothing that is opened later
// is taken for standard output.
void PrintToAClosedStream() {
  close(STDOUT_FILENO);
  HoldStandardStreams();
  const int file = open("/dev/null", O_WRONLY);
  if (file <= STDERR_FILENO) std::exit(3);
  std::fputs("some text\n", stdout);
  const absl::Status status = FlushStandardOutput();
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(status.ok() ? 1 : 0);
}

TEST(StandardOutputTest, NothingTakesThePlaceOfAClosedStream) {
  EXPECT_EXIT(PrintToAClosedStream(), ::testing::ExitedWithCode(0),
              HasSubstr("standard output: Bad file descriptor"));
}

// Without it each of the two signals ends the process.
void WriteToAClosedPipeAndATooLargeFile() {
  IgnoreWriteSignals();
  int pipe_ends[2];
  const rlimit none = {0, RLIM_INFINITY};
  if (pipe(pipe_ends) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0) std::exit(3);
  close(pipe_ends[0]);
  if (write(pipe_ends[1], "x", 1) >= 0 || errno != EPIPE) std::exit(4);
  const int file =
      open((::testing::TempDir() + "/large").c_str(), O_WRONLY | O_CREAT, 0600);
  if (write(file, "x", 1) >= 0 || errno != EFBIG) std::exit(5);
  std::exit(0);
}

TEST(StandardOutputTest, AFailedWriteIsAnErrorAndNoSignal) {
  EXPECT_EXIT(WriteToAClosedPipeAndATooLargeFile(),
              ::testing::ExitedWithCode(0), "");
}

void KeepAHandler() {
  signal(SIGPIPE, [](int) {});
  IgnoreWriteSignals();
  struct sigaction now = {};
  sigaction(SIGPIPE, nullptr, &now);
  std::exit(now.sa_handler == SIG_IGN ? 1 : 0);
}

TEST(StandardOutputTest, AHandlerOfTheProgramStays) {
  EXPECT_EXIT(KeepAHandler(), ::testing::ExitedWithCode(0), "");
}

TEST(StandardOutputTest, SucceedsWhereTheTextArrives) {
  std::fputs("some text\n", stdout);
  EXPECT_TRUE(FlushStandardOutput().ok());
}

}  // namespace
}  // namespace millrace
