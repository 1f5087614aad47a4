#include "common/write_bytes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/stop_signals.h"
#include "common/unique_fd.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  UniqueFd reader;
  UniqueFd writer;
};

TEST(WriteBytesTest, WritesMoreThanAPipeHoldsAsItsReaderTakesIt) {
  const Pipe pipe;
  const std::string text(300'000, 'x');
  std::string got;
  std::thread reader([&] {
    std::string bytes(5000, 0);
    while (got.size() < text.size()) {
      const ssize_t n = read(pipe.reader.get(), bytes.data(), bytes.size());
      if (n <= 0) break;
      got.append(bytes, 0, static_cast<size_t>(n));
    }
  });
  absl::string_view rest = text;
  const absl::Status status = WriteBytes(pipe.writer.get(), "pipe", &rest);
  reader.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(got, text);
}

// A program that holds signals back waited for its reader for ever.
TEST(WriteBytesTest, ASignalEndsTheWaitForAReaderThatTakesNothing) {
  const Pipe pipe;
  StopSignals signals;
  const std::string text(300'000, 'x');
  absl::string_view rest = text;
  std::thread user([] { kill(getpid(), SIGTERM); });
  const auto started = std::chrono::steady_clock::now();
  const absl::Status status = WriteBytes(pipe.writer.get(), "the pipe", &rest);
  user.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("cannot write the pipe: its reader took nothing for 2s"),
            HasSubstr("signal 15")));
  EXPECT_LT(std::chrono::steady_clock::now() - started,
            std::chrono::seconds(30));
  // What the pipe holds was written.
  EXPECT_GT(rest.size(), 0u);
  EXPECT_LT(rest.size(), text.size());
}

// The summary of a stopped run must reach a reader that works.
TEST(WriteBytesTest, AfterASignalAReaderThatTakesBytesGetsAll) {
  const Pipe pipe;
  StopSignals signals;
  kill(getpid(), SIGTERM);
  ASSERT_EQ(signals.Await(), SIGTERM);
  const std::string text(300'000, 'x');
  size_t got = 0;
  std::thread reader([&] {
    std::string bytes(5000, 0);
    while (got < text.size()) {
      const ssize_t n = read(pipe.reader.get(), bytes.data(), bytes.size());
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
  });
  absl::string_view rest = text;
  const absl::Status status = WriteBytes(pipe.writer.get(), "pipe", &rest);
  reader.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(got, text.size());
}

TEST(WriteBytesTest, ErrorsNameTheFileAndTheReason) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  absl::string_view rest = "text";
  const absl::Status status = WriteBytes(full.get(), "/dev/full", &rest);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("cannot write /dev/full"),
                                      HasSubstr("No space left on device")));
  EXPECT_EQ(rest, "text");
}

}  // namespace
}  // namespace millrace
