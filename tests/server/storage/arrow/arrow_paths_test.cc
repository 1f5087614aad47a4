#include "server/storage/arrow/arrow_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ArrowPathsTest : public ::testing::Test {
 protected:
  std::string Error() {
    const auto found = FindArrowFiles(folder_.path());
    EXPECT_FALSE(found.ok());
    return std::string(found.status().message());
  }
  TempFolder folder_;
};

TEST_F(ArrowPathsTest, StateNamesTheFilesAndTheirOrder) {
  for (const char* name : {"a.arrow", "b.arrow", "cache-1.arrow"}) {
    WriteFile(folder_ / name, "");
  }
  WriteFile(folder_ / "dataset_info.json", "{}");
  WriteFile(folder_ / "state.json", R"({"_data_files":
      [{"filename": "b.arrow"}, {"filename": "a.arrow"}]})");
  const auto found = FindArrowFiles(folder_.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->files,
              ElementsAre(folder_ / "b.arrow", folder_ / "a.arrow"));
  EXPECT_EQ(FindDatasetInfo(*found), folder_ / "dataset_info.json");
}

TEST_F(ArrowPathsTest, AStateThatIsDamagedIsRefused) {
  WriteFile(folder_ / "state.json", "{");
  EXPECT_THAT(Error(), HasSubstr("is not JSON"));
  WriteFile(folder_ / "state.json", "{}");
  EXPECT_THAT(Error(), HasSubstr("names no file"));
  for (const char* name :
       {"../a.arrow", "/etc/passwd", "", "..", "x/a.arrow"}) {
    WriteFile(
        folder_ / "state.json",
        std::string(R"({"_data_files": [{"filename": ")") + name + "\"}]}");
    EXPECT_THAT(Error(), HasSubstr("outside of its folder")) << name;
  }
  WriteFile(folder_ / "state.json",
            R"({"_data_files": [{"filename": "a.arrow"}]})");
  EXPECT_THAT(Error(), HasSubstr("there is no file"));
  WriteFile(folder_ / "state.json",
            R"({"_data_files": [{"filename": "a.arrow"}],
                "_indices_data_files": [{"filename": "i.arrow"}]})");
  EXPECT_THAT(Error(), HasSubstr("flatten_indices"));
}

TEST_F(ArrowPathsTest, SplitsAreListed) {
  WriteFile(folder_ / "dataset_dict.json", R"({"splits": ["train", "test"]})");
  EXPECT_THAT(Error(), HasSubstr("holds the splits train, test"));
}

TEST_F(ArrowPathsTest, NoFileOfAFolderIsDroppedInSilence) {
  WriteFile(folder_ / "a.feather", "");
  WriteFile(folder_ / ".b.arrow", "");
  EXPECT_THAT(FindArrowFiles(folder_.path())->files,
              ElementsAre(folder_ / "a.feather"));
  WriteFile(folder_ / "a.arrow", "");
  EXPECT_THAT(Error(), HasSubstr("holds *.arrow and *.feather files"));
  ASSERT_TRUE(std::filesystem::remove(folder_ / "a.feather"));
  std::filesystem::create_directory(folder_ / "more");
  WriteFile(folder_ / "more/c.arrow", "");
  EXPECT_THAT(Error(), HasSubstr("is in a folder below"));
}

TEST_F(ArrowPathsTest, AFolderWithoutFilesIsRefused) {
  WriteFile(folder_ / "a.txt", "");
  EXPECT_THAT(Error(), HasSubstr("there is no *.arrow file"));
}

}  // namespace
}  // namespace millrace::storage
