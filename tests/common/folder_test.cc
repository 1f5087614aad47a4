#include "common/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

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

TEST(FolderTest, JoinsWithOneSlash) {
  EXPECT_EQ(JoinPath("/data", "a"), "/data/a");
  EXPECT_EQ(JoinPath("/data/", "a"), "/data/a");
  EXPECT_EQ(JoinPath("/", "a"), "/a");
  EXPECT_EQ(JoinPath(".", "a"), "./a");
}

}  // namespace
}  // namespace millrace
