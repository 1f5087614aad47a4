// Ranges of local files: the bytes, and files that change between reads.

#include "server/storage/objects/local_objects.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/objects/open_files.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::string> Read(ObjectReader& objects, const std::string& path,
                                 const ObjectIdentity& identity,
                                 uint64_t offset, size_t bytes) {
  std::string data(bytes, '\0');
  const absl::Status status = objects.Read(
      path, identity, offset,
      absl::MakeSpan(reinterpret_cast<uint8_t*>(data.data()), data.size()));
  if (!status.ok()) return status;
  return data;
}

class LocalObjectsTest : public ::testing::Test {
 protected:
  LocalObjectsTest() { WriteFile(path_, "0123456789"); }
  ObjectIdentity Identity() {
    const auto identity = objects_.Stat(path_);
    EXPECT_TRUE(identity.ok()) << identity.status();
    return identity.ok() ? *identity : ObjectIdentity();
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "a.tar";
  OpenFiles files_{4};
  LocalObjects objects_{files_};
};

TEST_F(LocalObjectsTest, ReadsRanges) {
  const ObjectIdentity identity = Identity();
  EXPECT_EQ(identity.bytes, 10);
  EXPECT_GT(identity.modified_nanos, 0);
  EXPECT_GT(identity.changed_nanos, 0);
  EXPECT_EQ(*Read(objects_, path_, identity, 0, 10), "0123456789");
  EXPECT_EQ(*Read(objects_, path_, identity, 3, 2), "34");
  EXPECT_EQ(*Read(objects_, path_, identity, 10, 0), "");
  EXPECT_EQ(files_.open_files(), 1);
}

TEST_F(LocalObjectsTest, ARangeBeyondTheEndIsRefused) {
  const ObjectIdentity identity = Identity();
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, size_t>>{
           {9, 2}, {11, 0}, {UINT64_MAX, 1}, {UINT64_MAX - 1, 4}}) {
    const auto data = Read(objects_, path_, identity, offset, bytes);
    EXPECT_TRUE(absl::IsDataLoss(data.status())) << offset;
    EXPECT_THAT(std::string(data.status().message()),
                HasSubstr(absl::StrCat(path_, " ends at byte 10, before ",
                                       bytes, " bytes from byte ", offset)));
  }
}

TEST_F(LocalObjectsTest, StatTellsWhatIsThere) {
  EXPECT_TRUE(absl::IsNotFound(objects_.Stat(folder_ / "none").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(objects_.Stat(folder_.path()).status()));
  if (geteuid() != 0) {
    ASSERT_EQ(chmod(folder_.path().c_str(), 0), 0);
    EXPECT_TRUE(absl::IsPermissionDenied(objects_.Stat(path_).status()));
    ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);
  }
}

struct Change {
  std::string name;
  std::function<void(const std::string& file)> make;
  std::string says;
};

class ChangedObjectTest : public LocalObjectsTest,
                          public ::testing::WithParamInterface<Change> {};

// Both with the file open from an earlier read and without.
TEST_P(ChangedObjectTest, IsNotRead) {
  const ObjectIdentity identity = Identity();
  ASSERT_TRUE(Read(objects_, path_, identity, 0, 10).ok());
  GetParam().make(path_);
  OpenFiles other_files(1);
  LocalObjects fresh(other_files);
  for (ObjectReader* objects :
       std::vector<ObjectReader*>{&objects_, &objects_, &fresh}) {
    const auto data = Read(*objects, path_, identity, 2, 3);
    EXPECT_TRUE(absl::IsDataLoss(data.status())) << data.status();
    EXPECT_THAT(std::string(data.status().message()),
                AllOf(HasSubstr(path_ + " "), HasSubstr("data server")));
    EXPECT_EQ(objects->CheckIdentity(path_, identity), data.status());
  }
  EXPECT_THAT(
      std::string(Read(objects_, path_, identity, 2, 3).status().message()),
      HasSubstr(GetParam().says));
}

// The time of modification of `file`, given to `other`, too.
void CopyTime(const std::string& file, const std::string& other) {
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  const struct timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, other.c_str(), times, 0), 0);
}

// Until the file system's clock has left the time at which `file` changed.
void AwaitTick(const std::string& file) {
  struct stat then;
  struct stat now;
  ASSERT_EQ(stat(file.c_str(), &then), 0);
  do {
    WriteFile(file + ".tick", "");
    ASSERT_EQ(stat((file + ".tick").c_str(), &now), 0);
  } while (now.st_ctim.tv_nsec == then.st_ctim.tv_nsec);
}

INSTANTIATE_TEST_SUITE_P(
    All, ChangedObjectTest,
    ::testing::Values(
        Change{"Truncated",
               [](const std::string& file) {
                 std::filesystem::resize_file(file, 6);
               },
               "was truncated from 10 to 6 bytes"},
        Change{"Grown",
               [](const std::string& file) {
                 std::filesystem::resize_file(file, 12);
               },
               "grew from 10 to 12 bytes"},
        Change{"Overwritten",
               [](const std::string& file) { WriteFile(file, "9876543210"); },
               "was overwritten after it was indexed"},
        Change{"OverwrittenWithTheTimeSetBack",
               [](const std::string& file) {
                 WriteFile(file + ".time", "");
                 CopyTime(file, file + ".time");
                 AwaitTick(file);
                 WriteFile(file, "9876543210");
                 CopyTime(file + ".time", file);
               },
               "links or times were changed"},
        // Of equal size and time: the open file is not the one of this name.
        Change{"Replaced",
               [](const std::string& file) {
                 WriteFile(file + ".new", "9876543210");
                 CopyTime(file, file + ".new");
                 std::filesystem::rename(file + ".new", file);
               },
               "was deleted or replaced by another file"},
        Change{"Deleted",
               [](const std::string& file) { std::filesystem::remove(file); },
               "was deleted or replaced by another file"}),
    [](const auto& info) { return info.param.name; });

TEST_F(LocalObjectsTest, AFileThatIsGoneBeforeItIsOpened) {
  const ObjectIdentity identity = Identity();
  std::filesystem::remove(path_);
  const auto data = Read(objects_, path_, identity, 0, 1);
  EXPECT_TRUE(absl::IsDataLoss(data.status())) << data.status();
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("is no longer there"));
  EXPECT_EQ(files_.open_files(), 0);
  // Another kind of file: it is neither waited for nor read.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(
      std::string(Read(objects_, path_, identity, 0, 1).status().message()),
      HasSubstr("is no longer a regular file"));
}

TEST_F(LocalObjectsTest, MissingPermissionsAreOfThePerson) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  const auto data = Read(objects_, path_, Identity(), 0, 1);
  EXPECT_TRUE(absl::IsDataLoss(data.status())) << data.status();
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("permission to read the file"));
}

TEST_F(LocalObjectsTest, TheFileUsedLongestAgoIsClosed) {
  std::vector<std::string> paths;
  std::vector<ObjectIdentity> identities;
  for (int i = 0; i < 9; ++i) {
    paths.push_back(folder_ / absl::StrCat(i));
    WriteFile(paths.back(), absl::StrCat("file ", i));
    identities.push_back(*objects_.Stat(paths.back()));
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(*Read(objects_, paths[i], identities[i], 0, 6),
                absl::StrCat("file ", i));
      EXPECT_LE(files_.open_files(), 4);
    }
  }
  EXPECT_EQ(files_.open_files(), 4);
  // A file that stayed open is read although its folder cannot be found.
  const std::string moved = folder_.path() + ".moved";
  std::filesystem::rename(folder_.path(), moved);
  EXPECT_TRUE(Read(objects_, paths[8], identities[8], 0, 6).ok());
  EXPECT_FALSE(Read(objects_, paths[0], identities[0], 0, 6).ok());
  std::filesystem::rename(moved, folder_.path());
}

TEST_F(LocalObjectsTest, MoreThreadsThanFilesThatMayBeOpen) {
  constexpr int kFiles = 6;
  std::vector<std::string> paths;
  std::vector<ObjectIdentity> identities;
  for (int i = 0; i < kFiles; ++i) {
    paths.push_back(folder_ / absl::StrCat(i));
    WriteFile(paths.back(), std::string(1000, static_cast<char>('a' + i)));
    identities.push_back(*objects_.Stat(paths.back()));
  }
  OpenFiles files(2);
  LocalObjects one(files), other(files);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      LocalObjects& objects = t % 2 == 0 ? one : other;
      for (int n = 0; n < 200; ++n) {
        const int i = (n * 7 + t) % kFiles;
        const auto data = Read(objects, paths[i], identities[i], 100, 500);
        if (!data.ok() ||
            *data != std::string(500, static_cast<char>('a' + i))) {
          ++wrong;
        }
        if (files.open_files() > 2) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace millrace::storage
