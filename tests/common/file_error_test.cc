#include "common/file_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

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
  EXPECT_EQ(FileError(ENOENT, "open", "/x").message(),
            "cannot open /x: No such file or directory; check the path");
  for (const char* action : {"write", "create folder", "make the folder"}) {
    EXPECT_EQ(FileError(ENOENT, action, "/a/x").message(),
              absl::StrCat("cannot ", action,
                           " /a/x: No such file or directory; create the "
                           "folder, or check the path"));
  }
  EXPECT_EQ(FileError(ENOTDIR, "write", "/a/x").message(),
            "cannot write /a/x: Not a directory; check the path: a part of it "
            "is a file and no folder");
  EXPECT_EQ(FileError(EISDIR, "write", "/a").message(),
            "cannot write /a: Is a directory; name a file, not a folder");
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
