#include "server/data_tool/class_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_split.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

// Of images at these paths; the classes are their first folders.
absl::StatusOr<Names> Check(Names paths) {
  std::sort(paths.begin(), paths.end());
  Names classes;
  std::vector<ClassFile> files;
  for (const std::string& path : paths) {
    const std::string name = Names(absl::StrSplit(path, '/'))[0];
    if (classes.empty() || classes.back() != name) classes.push_back(name);
    files.push_back(
        {.path = path, .label = static_cast<int64_t>(classes.size()) - 1});
  }
  return CheckClassLevels("/in", classes, files);
}

std::string Refusal(Names paths) {
  const auto result = Check(std::move(paths));
  EXPECT_FALSE(result.ok());
  return std::string(result.status().message());
}

Names Doubts(Names paths) {
  const auto result = Check(std::move(paths));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(Names());
}

TEST(ClassFoldersTest, PartsAreNoClasses) {
  for (const Names& names :
       {Names{"annotations", "train2017", "val2017"},
        Names{"train_images", "validation"}, Names{"test"},
        Names{"bounding_box_test", "bounding_box_train", "query"}}) {
    EXPECT_THAT(std::string(CheckClassNames("/in", names).message()),
                HasSubstr("pack"))
        << names[0];
  }
  EXPECT_THAT(
      std::string(CheckClassNames("/in", {"Train", "test", "val"}).message()),
      HasSubstr("(--input=/in --split=Train)"));
  EXPECT_TRUE(CheckClassNames("/in", {"bus", "car", "train"}).ok());
  EXPECT_TRUE(CheckClassNames("/in", {"cat", "dog"}).ok());
  EXPECT_THAT(
      std::string(CheckClassNames("/in", {"Images", "masks"}).message()),
      HasSubstr("named after what they hold of each sample (Images, masks)"));
  EXPECT_TRUE(CheckClassNames("/in", {"images", "masks", "cats"}).ok());
  EXPECT_TRUE(CheckClassNames("/in", {"images"}).ok());
}

TEST(ClassFoldersTest, ClassesMayHoldFolders) {
  EXPECT_THAT(Doubts({"cat/1.jpg", "dog/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/a/1.jpg", "cat/b/1.jpg", "dog/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/a/1.jpg", "cat/b/1.jpg", "dog/c/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/1.jpg", "cat/a/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/a/1.jpg"}), IsEmpty());
  EXPECT_THAT(CheckClassLevels("/in", {"cat"}, {}).value(), IsEmpty());
}

TEST(ClassFoldersTest, AFolderThatIsALevelTooHighIsNamed) {
  EXPECT_THAT(Refusal({"photos/cat/1.jpg", "photos/dog/1.jpg"}),
              HasSubstr("/in/photos holds its images in folders (cat, dog)"));
  EXPECT_THAT(Refusal({"a/b/cat/1.jpg", "a/b/car/1.jpg"}),
              HasSubstr("(--input=/in/a/b)"));
  EXPECT_THAT(Refusal({"photos/train/cat/1.jpg", "photos/val/cat/1.jpg"}),
              HasSubstr("(--input=/in/photos --split=train)"));
  EXPECT_THAT(
      Refusal({"animals/test/1.jpg", "animals/train/1.jpg", "plants/1.jpg"}),
      HasSubstr("would become one class, animals"));
}

TEST(ClassFoldersTest, APartBesideClassesIsNamed) {
  EXPECT_THAT(Refusal({"cat/1.jpg", "dog/1.jpg", "train/cat/1.jpg"}),
              HasSubstr("/in/train is named as a part of a dataset"));
  EXPECT_THAT(Doubts({"bus/1.jpg", "car/1.jpg", "train/1.jpg"}),
              ElementsAre(HasSubstr("folder train becomes a class")));
}

TEST(ClassFoldersTest, ClassesWithTheSameFoldersAreDoubted) {
  EXPECT_THAT(
      Doubts({"a/cat/1.jpg", "a/dog/1.jpg", "b/cat/1.jpg", "b/dog/1.jpg"}),
      ElementsAre(HasSubstr("folders of the same names (cat, dog)")));
}

}  // namespace
}  // namespace millrace
