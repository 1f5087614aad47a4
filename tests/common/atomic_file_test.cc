// A file at its path is whole or not there, and survives what it promises to.

#include "common/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

// In the order of the calls; the C library's function is replaced for all of
// the program.
static std::vector<std::string> synchronised;

extern "C" int fsync(int fd) {
  struct stat info;
  if (fstat(fd, &info) == 0) {
    synchronised.push_back(S_ISDIR(info.st_mode) ? "folder" : "file");
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class AtomicFileTest : public ::testing::Test {
 protected:
  const std::string folder_ = [] {
    std::string name = ::testing::TempDir() + "/files.XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
};

TEST_F(AtomicFileTest, ReplacesTheFileAsAWhole) {
  const std::string path = folder_ + "/file";
  for (const Lasts lasts : {Lasts::kThroughPowerLoss, Lasts::kThroughCrash}) {
    ASSERT_TRUE(WriteFileAtomically(path, "the first, longer", lasts).ok());
    ASSERT_TRUE(WriteFileAtomically(path, "second", lasts).ok());
    EXPECT_EQ(Contents(path), "second");
  }
}

// After a loss of power a rename that was not synchronised may be undone.
TEST_F(AtomicFileTest, SynchronisesTheFileAndThenItsFolder) {
  synchronised.clear();
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x").ok());
  EXPECT_THAT(synchronised, ElementsAre("file", "folder"));
  synchronised.clear();
  ASSERT_TRUE(
      WriteFileAtomically(folder_ + "/file", "x", Lasts::kThroughCrash).ok());
  EXPECT_THAT(synchronised, IsEmpty());
}

TEST_F(AtomicFileTest, LeavesNothingWhenItIsNotCommitted) {
  const std::string path = folder_ + "/file";
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write("half").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// As root a rename to /dev/null would replace the device.
TEST_F(AtomicFileTest, WritesADeviceOrPipeInPlace) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const absl::Status status = WriteFileAtomically(path, "bytes");
  EXPECT_TRUE(status.ok()) << status;
  char got[8] = {};
  EXPECT_EQ(read(reader, got, sizeof(got)), 5);
  EXPECT_STREQ(got, "bytes");
  close(reader);
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

// `--json=PIPE` waited for a reader for ever.
TEST_F(AtomicFileTest, RefusesAPipeThatNoProgramReads) {
  const std::string path = folder_ + "/unread";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const absl::Status status = WriteFileAtomically(path, "bytes");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(),
            "cannot write " + path +
                ": no program reads the pipe; start the reader first");
}

TEST_F(AtomicFileTest, APipeWithTheNameOfALeftoverStays) {
  const std::string pipe = folder_ + "/file.tmp.123";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  RemoveLeftovers(folder_ + "/file");
  EXPECT_EQ(access(pipe.c_str(), F_OK), 0);
}

// Writes wait for a slow reader, although the pipe is opened without waiting.
TEST_F(AtomicFileTest, WritesMoreThanAPipeHolds) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_EQ(fcntl(reader, F_SETFL, 0), 0);
  std::string got;
  std::atomic<bool> begun = false;
  std::thread slow([&] {
    // Before the writer opens the pipe, a read would see its end.
    while (!begun) std::this_thread::yield();
    char bytes[4096];
    for (ssize_t n; (n = read(reader, bytes, sizeof(bytes))) > 0;) {
      got.append(bytes, n);
    }
  });
  auto file = AtomicFile::Create(path);
  begun = true;
  EXPECT_TRUE(file.ok()) << file.status();
  const std::string text(1 << 20, 'z');
  if (file.ok()) {
    EXPECT_TRUE((*file)->Write(text).ok());
    EXPECT_TRUE((*file)->Commit().ok());
  }
  slow.join();
  close(reader);
  EXPECT_EQ(got, text);
}

// `--json=/dev/stdout >> log` replaced the log, and what the program had
// printed went into the file that was no longer there.
TEST_F(AtomicFileTest, WritesToStandardOutputAfterWhatIsThere) {
  const std::string path = folder_ + "/log";
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink("/dev/stdout", link.c_str()), 0);
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int standard_output = dup(STDOUT_FILENO);
  ASSERT_GE(dup2(log, STDOUT_FILENO), 0);
  bool good = write(STDOUT_FILENO, "before ", 7) == 7;
  for (const std::string& name :
       {std::string("/dev/stdout"), link, std::string("/dev/fd/1"),
        std::string("/proc/self/fd/1")}) {
    good = WriteFileAtomically(name, "json ").ok() && good;
  }
  good = write(STDOUT_FILENO, "after", 5) == 5 && good;
  dup2(standard_output, STDOUT_FILENO);
  close(standard_output);
  close(log);
  EXPECT_TRUE(good);
  EXPECT_EQ(Contents(path), "before json json json json after");
}

TEST_F(AtomicFileTest, SaysWhatCannotBeWritten) {
  EXPECT_TRUE(
      absl::IsNotFound(WriteFileAtomically(folder_ + "/none/x", "bytes")));
}

}  // namespace
}  // namespace millrace
