#include "common/read_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "common/stop_signals.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "/read_file_" + name;
}

std::string Written(const std::string& name, const std::string& text) {
  std::ofstream(Path(name), std::ios::binary) << text;
  return Path(name);
}

TEST(ReadFileTest, GivesTheWholeFile) {
  std::string text(100'000, 'x');
  text[7] = '\0';
  EXPECT_EQ(*ReadFile(Written("whole", text), kNoFileLimit), text);
  EXPECT_EQ(*ReadFile(Written("limit", text), text.size()), text);
  EXPECT_EQ(*ReadFile(Written("empty", ""), 0), "");
  // Says a size of 0.
  EXPECT_THAT(*ReadFile("/proc/self/status", kMaxTextFileBytes),
              HasSubstr("Pid:"));
}

TEST(ReadFileTest, WaitsForTheWriterOfAPipe) {
  const std::string path = Path("pipe");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string text(70'000, 'y');
  std::thread writer([&] { std::ofstream(path, std::ios::binary) << text; });
  EXPECT_EQ(*ReadFile(path, kNoFileLimit), text);
  writer.join();
}

// The open() of a pipe without a writer waited without a word, and a program
// that holds signals back could not be stopped.
TEST(ReadFileTest, NamesASilentPipeAndEndsWithASignal) {
  const std::string path = Path("silent");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  StopSignals signals;
  int lines[2];
  ASSERT_EQ(pipe(lines), 0);
  const int standard_error = dup(STDERR_FILENO);
  ASSERT_GE(dup2(lines[1], STDERR_FILENO), 0);
  std::string said;
  std::thread user([&] {
    char c;
    while (read(lines[0], &c, 1) == 1 && c != '\n') said += c;
    kill(getpid(), SIGTERM);
  });
  const auto stopped = ReadFile(path, kNoFileLimit);
  dup2(standard_error, STDERR_FILENO);
  user.join();
  for (const int fd : {standard_error, lines[0], lines[1]}) close(fd);
  EXPECT_THAT(said, HasSubstr("waiting for bytes of " + path));
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_THAT(stopped.status().message(), HasSubstr(path));
}

TEST(ReadFileTest, RefusesAFileAboveTheLimit) {
  const auto large = ReadFile(Written("large", "12345"), 4);
  EXPECT_TRUE(absl::IsInvalidArgument(large.status()));
  EXPECT_THAT(large.status().message(),
              HasSubstr("read_file_large is larger than 4 bytes"));
  // Never ends.
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile("/dev/zero", 1 << 20).status()));
}

TEST(ReadFileTest, ErrorsNameTheFileAndTheReason) {
  const auto none = ReadFile("/none/x", kNoFileLimit, "the configuration");
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_EQ(none.status().message(),
            "cannot read the configuration /none/x: No such file or directory; "
            "check the path");
  EXPECT_THAT(ReadFile(::testing::TempDir(), kNoFileLimit).status().message(),
              HasSubstr("Is a directory"));
}

TEST(ReadToEndTest, UsesTheMemoryAgain) {
  std::string bytes = "what was there before";
  ASSERT_TRUE(ReadToEnd(open(Written("again", "new").c_str(), O_RDONLY),
                        "again", kNoFileLimit, "", &bytes)
                  .ok());
  EXPECT_EQ(bytes, "new");
}

}  // namespace
}  // namespace millrace
