#include "common/folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

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
