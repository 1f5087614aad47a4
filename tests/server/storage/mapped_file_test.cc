// What counts as a change of a file that is open, and how it is told.

#include "server/storage/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() {
    WriteFile(path_, std::string(kBytes, 'a'));
    // Long ago: files that are written twice within a tick of the clock have
    // one time.
    SetModified(path_, 1'000'000);
    auto file = MappedFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  static void SetModified(const std::string& path, time_t seconds) {
    const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  // Writes in place.
  void Overwrite(off_t at, std::string bytes) {
    const int fd = open(path_.c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), at),
              static_cast<ssize_t>(bytes.size()));
    close(fd);
  }

  void ExpectFault(const std::string& cause) {
    for (int i = 0; i < 2; ++i) {  // it stays so
      const absl::Status status = file_->CheckUnchanged();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(path_ + " " + cause));
      // Clients get the sentence too.
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("restart the data server"));
    }
  }
  void ExpectUnchanged() {
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = file_->CheckUnchanged();
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  static constexpr size_t kBytes = 300'000;
  TempFolder folder_;
  const std::string path_ = folder_ / "file";
  std::unique_ptr<const MappedFile> file_;
};

TEST_F(MappedFileTest, AFileThatIsLeftAloneIsUnchanged) {
  EXPECT_EQ(file_->data().size(), kBytes);
  EXPECT_EQ(file_->data()[kBytes - 1], 'a');
  ExpectUnchanged();
}

TEST_F(MappedFileTest, TruncatedWhetherOrNotItWasReadSince) {
  ASSERT_EQ(truncate(path_.c_str(), 8192), 0);
  ExpectFault("was truncated from 300000 to 8192 bytes while it was in use");
}

TEST_F(MappedFileTest, ReadingWhatIsGoneGivesZerosAndAFault) {
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(file_->data()[kBytes / 2], 0);
  ExpectFault("was truncated from 300000 to 0 bytes while it was in use");
}

TEST_F(MappedFileTest, Grown) {
  Overwrite(kBytes, "more");
  ExpectFault("grew from 300000 to 300004 bytes while it was in use");
}

TEST_F(MappedFileTest, OverwrittenByTheSameBytes) {
  Overwrite(5, "a");
  ExpectFault("was overwritten while it was in use");
}

TEST_F(MappedFileTest, ShrunkAndGrownAgain) {
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(file_->data()[0], 0);
  ASSERT_EQ(truncate(path_.c_str(), kBytes), 0);
  SetModified(path_, 1'000'000);
  // Also with every number as it was.
  ExpectFault("could not be read at byte 0");
}

TEST_F(MappedFileTest, OverwrittenWithItsTimeSetBack) {
  Overwrite(kBytes - 1, "b");
  SetModified(path_, 1'000'000);
  ExpectFault("was overwritten while it was in use, and its time");
}

TEST_F(MappedFileTest, AttributesNamesAndLinksMayChange) {
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  ExpectUnchanged();
  ASSERT_EQ(chown(path_.c_str(), getuid(), getgid()), 0);
  ExpectUnchanged();
  ASSERT_EQ(link(path_.c_str(), (folder_ / "link").c_str()), 0);
  ExpectUnchanged();
  SetModified(path_, 1'000'000);
  ExpectUnchanged();
  std::filesystem::rename(path_, folder_ / "other");
  ExpectUnchanged();
}

TEST_F(MappedFileTest, AnotherFileInItsPlaceIsNoChange) {
  WriteFile(folder_ / "new", "something else");
  std::filesystem::rename(folder_ / "new", path_);
  ExpectUnchanged();
  EXPECT_EQ(file_->data()[kBytes - 1], 'a');
}

TEST_F(MappedFileTest, ADeletedFileGoesOn) {
  std::filesystem::remove(path_);
  ExpectUnchanged();
  EXPECT_EQ(file_->data()[kBytes - 1], 'a');
}

TEST_F(MappedFileTest, AnEmptyFileHasAnEmptyMap) {
  WriteFile(folder_ / "empty", "");
  const auto file = MappedFile::Open(folder_ / "empty");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->data().empty());
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
}

TEST_F(MappedFileTest, AMissingFileIsNamed) {
  const auto file = MappedFile::Open(folder_ / "none");
  EXPECT_TRUE(absl::IsNotFound(file.status()));
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr(folder_ / "none"));
}

}  // namespace
}  // namespace millrace::storage
