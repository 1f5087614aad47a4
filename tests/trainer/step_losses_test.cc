#include "trainer/step_losses.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "tests/testing/subprocess.h"

namespace millrace::trainer {
namespace {

using testing::ReadFile;
using testing::WriteFile;

class StepLossesFile : public ::testing::Test {
 protected:
  const std::string path_ = testing::NewTempDir() + "/losses";
};

TEST_F(StepLossesFile, HasEachStepAsSoonAsItIsTold) {
  WriteFile(path_, "of a run before\n");
  StepLosses losses(path_, std::nullopt);
  EXPECT_EQ(ReadFile(path_), "of a run before\n") << "nothing is known yet";
  ASSERT_TRUE(losses.Append(0, 3, {0.5, 0.25}).ok());
  EXPECT_EQ(ReadFile(path_), "0 3 0.5\n0 4 0.25\n");
  ASSERT_TRUE(losses.Append(1, 0, {1}).ok());
  ASSERT_TRUE(losses.Append(1, 1, {}).ok());
  EXPECT_EQ(ReadFile(path_), "0 3 0.5\n0 4 0.25\n1 0 1\n");
}

// Steps after the checkpoint are trained again; the last line was cut off.
TEST_F(StepLossesFile, GoesOnWhereTheRunGoesOn) {
  WriteFile(path_, "0 8 0.5\n0 9 0.4\n1 0 0.3\n1 1 0.2\n1 2 0.");
  StepLosses losses(path_, Position{1, 1});
  ASSERT_TRUE(losses.Append(1, 1, {0.125}).ok());
  EXPECT_EQ(ReadFile(path_), "0 8 0.5\n0 9 0.4\n1 0 0.3\n1 1 0.125\n");
  // There need be no file yet.
  StepLosses fresh(path_ + "2", Position{1, 1});
  ASSERT_TRUE(fresh.Append(1, 1, {0.125}).ok());
  EXPECT_EQ(ReadFile(path_ + "2"), "1 1 0.125\n");
}

// A run that went on replaced another program's text.
TEST_F(StepLossesFile, OfAnotherKindIsRefused) {
  for (const char* text : {"hello world\n", "0 8 0.5\nnote\n0 9 0.4\n"}) {
    WriteFile(path_, text);
    StepLosses losses(path_, Position{1, 1});
    EXPECT_TRUE(absl::IsInvalidArgument(losses.Check()));
    EXPECT_TRUE(absl::IsInvalidArgument(losses.Append(1, 1, {0.125})));
    EXPECT_EQ(ReadFile(path_), text);
    // Of a new run, the trainer refuses the file before it opens the data.
    EXPECT_TRUE(StepLosses(path_, std::nullopt).Check().ok());
  }
}

TEST_F(StepLossesFile, KeepsWhatCouldNotBeWrittenForTheNextTime) {
  const std::string folder = testing::NewTempDir() + "/none";
  StepLosses losses(folder + "/losses", std::nullopt);
  EXPECT_TRUE(absl::IsNotFound(losses.Append(0, 0, {0.5})));
  ASSERT_EQ(testing::RunProgram({"/bin/mkdir", folder}).exit_code, 0);
  EXPECT_TRUE(losses.Append(0, 1, {}).ok());
  EXPECT_EQ(ReadFile(folder + "/losses"), "0 0 0.5\n");
}

// A run that went on from a checkpoint read its own pipe, and waited for ever.
// A new run closed the pipe before its first line, which ended the reader.
TEST_F(StepLossesFile, MayBeAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const bool resumed : {false, true}) {
    SCOPED_TRACE(resumed);
    StepLosses losses(
        path_, resumed ? std::make_optional(Position{1, 1}) : std::nullopt);
    // Nobody reads it yet: an error, not a wait.
    EXPECT_TRUE(absl::IsUnavailable(losses.Append(1, 1, {0.5})));
    const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    EXPECT_TRUE(losses.Append(1, 2, {0.25}).ok());
    EXPECT_TRUE(losses.Append(1, 3, {0.125}).ok());
    char text[100] = {};
    EXPECT_GT(read(reader, text, sizeof(text) - 1), 0);
    EXPECT_STREQ(text, "1 1 0.5\n1 2 0.25\n1 3 0.125\n");
    // The writer is still there: no end of file.
    EXPECT_EQ(read(reader, text, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
    close(reader);
  }
}

}  // namespace
}  // namespace millrace::trainer
