#include "common/folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/subprocess.h"

// Number of entries until readdir() fails; negative: it does not.
static int entries_before_failure = -1;

// In place of libc's, for a file system that fails in the middle of a folder.
extern "C" dirent* readdir(DIR* folder) {
  static const auto libc =
      reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  if (entries_before_failure == 0) {
    errno = EIO;
    return nullptr;
  }
  if (entries_before_failure > 0) --entries_before_failure;
  return libc(folder);
}

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(FolderTest, IsAFolderOrALinkToOne) {
  const std::string folder = testing::NewTempDir();
  const std::string link = folder + "/link";
  ASSERT_EQ(symlink(folder.c_str(), link.c_str()), 0);
  for (const std::string& path : {folder, folder + "/", link}) {
    EXPECT_TRUE(IsFolder(path)) << path;
  }
  const std::string file = folder + "/file";
  testing::WriteFile(file, "x");
  const std::string dangling = folder + "/dangling";
  ASSERT_EQ(symlink("none", dangling.c_str()), 0);
  for (const std::string& path :
       {file, file + "/", dangling, folder + "/none", std::string()}) {
    EXPECT_FALSE(IsFolder(path)) << path;
  }
}

TEST(FolderTest, IsCreatedOnce) {
  const std::string path = testing::NewTempDir() + "/new";
  EXPECT_TRUE(*MakeFolder(path));
  EXPECT_FALSE(*MakeFolder(path));
  EXPECT_FALSE(*MakeFolder(path + "/"));
  EXPECT_TRUE(IsFolder(path));
  const std::string link = path + "/link";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_FALSE(*MakeFolder(link)) << "a link to a folder";
  EXPECT_TRUE(absl::IsNotFound(MakeFolder(path + "/none/new").status()));
}

TEST(FolderTest, IsCreatedWithTheFoldersAboveIt) {
  const std::string folder = testing::NewTempDir();
  EXPECT_TRUE(MakeFolders(folder + "/a/b//c").ok());
  EXPECT_TRUE(IsFolder(folder + "/a/b/c"));
  EXPECT_TRUE(MakeFolders(folder + "/a/b").ok()) << "it exists";
  EXPECT_TRUE(MakeFolders(folder + "/a/d/").ok());
  EXPECT_TRUE(IsFolder(folder + "/a/d"));
}

TEST(FolderTest, IsNotCreatedWhereAFileOrALinkToNothingIs) {
  const std::string folder = testing::NewTempDir();
  testing::WriteFile(folder + "/file", "x");
  ASSERT_EQ(symlink("none", (folder + "/link").c_str()), 0);
  const auto expect = [&folder](const std::string& path,
                                const std::string& why) {
    const absl::Status status = MakeFolders(folder + path);
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
    EXPECT_EQ(status.message(), absl::StrCat("cannot create the folder ",
                                             folder, path, ": ", why));
  };
  expect("/file", "it is a file");
  expect("/file/a/b", folder + "/file is a file");
  expect("/link", "it is a link to nothing");
  expect("/link/a", folder + "/link is a link to nothing");
  EXPECT_EQ(testing::ReadFile(folder + "/file"), "x");
}

TEST(FolderTest, ListsItsNames) {
  const std::string folder = testing::NewTempDir();
  EXPECT_THAT(*NamesIn(folder), IsEmpty());
  testing::WriteFile(folder + "/b", "x");
  testing::WriteFile(folder + "/.a", "x");
  EXPECT_THAT(*NamesIn(folder), UnorderedElementsAre("b", ".a"));
  EXPECT_TRUE(absl::IsNotFound(NamesIn(folder + "/none").status()));
}

// Names were missing without an error.
TEST(FolderTest, AFolderThatCannotBeReadToItsEndIsAnError) {
  const std::string folder = testing::NewTempDir();
  testing::WriteFile(folder + "/a", "x");
  testing::WriteFile(folder + "/b", "x");
  entries_before_failure = 3;
  const auto names = NamesIn(folder);
  entries_before_failure = -1;
  ASSERT_FALSE(names.ok());
  EXPECT_THAT(std::string(names.status().message()), HasSubstr(folder));
  EXPECT_THAT(*NamesIn(folder), UnorderedElementsAre("a", "b"));
}

TEST(FolderTest, JoinsWithOneSlash) {
  EXPECT_EQ(JoinPath("/data", "a"), "/data/a");
  EXPECT_EQ(JoinPath("/data/", "a"), "/data/a");
  EXPECT_EQ(JoinPath("/", "a"), "/a");
  EXPECT_EQ(JoinPath(".", "a"), "./a");
}

}  // namespace
}  // namespace millrace
