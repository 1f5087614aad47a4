#include "common/file_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FileErrorTest, SaysWhatWhereWhyAndWhatToDo) {
  const absl::Status full = FileError(ENOSPC, "write", "/data/x.lmdb");
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr("cannot write /data/x.lmdb"),
                    HasSubstr("No space left"), HasSubstr("make room")));
  EXPECT_TRUE(absl::IsNotFound(FileError(ENOENT, "open", "/x")));
  EXPECT_TRUE(absl::IsPermissionDenied(FileError(EACCES, "open", "/x")));
  EXPECT_TRUE(absl::IsResourceExhausted(FileError(EFBIG, "write", "/x")));
}

TEST(FileErrorTest, ACutWriteOnAFullDiskIsNoSpace) {
  // A pseudo file system has no room at all.
  EXPECT_EQ(WriteErrno(EIO, "/proc/x"), ENOSPC);
  EXPECT_EQ(WriteErrno(EACCES, "/proc/x"), EACCES);
  EXPECT_EQ(WriteErrno(EIO, "/no/such/folder/x"), EIO);
}

TEST(FileErrorTest, TakesPathsApart) {
  EXPECT_EQ(FileName("/a/b.lmdb"), "b.lmdb");
  EXPECT_EQ(FileName("b"), "b");
  EXPECT_EQ(FileName("/a/b/"), "b");
  EXPECT_EQ(FolderOf("/a/b"), "/a");
  EXPECT_EQ(FolderOf("/a/b/"), "/a");
  EXPECT_EQ(FolderOf("b"), ".");
  EXPECT_EQ(FolderOf("/b"), "/");
}

TEST(FileErrorTest, SyncingWhatIsNotThereIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(SyncToDisk("/no/such/file")));
  EXPECT_TRUE(SyncToDisk("/tmp").ok());
}

}  // namespace
}  // namespace millrace
