#include "server/storage/extents/extent_uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ExtentUriTest, APathAndItsOptions) {
  const auto uri = ExtentUri::Parse(
      "tar", "/none/t-*.tar?label_offset=-1&fields=a:jpg;png&num_classes=7");
  ASSERT_TRUE(uri.ok()) << uri.status();
  EXPECT_EQ(uri->path, "/none/t-*.tar");
  EXPECT_EQ(uri->label_offset, -1);
  EXPECT_EQ(uri->num_classes, 7);
  EXPECT_THAT(uri->options, ElementsAre(Pair("fields", "a:jpg;png")));
  EXPECT_EQ(uri->record_options, "fields=a:jpg;png\nlabel_offset=-1\n");
  EXPECT_EQ(uri->ToString(), "tar:/none/t-*.tar");
  EXPECT_EQ(uri->ShellArgument(),
            "'tar:/none/t-*.tar?fields=a:jpg;png&label_offset=-1'");
}

TEST(ExtentUriTest, AQuestionMarkOfAGlobIsNoOption) {
  for (const std::string path :
       {"/none/t-??.tar", "/none/t-?", "/none/a?b/c=d?", "/none/?=1"}) {
    const auto uri = ExtentUri::Parse("tar", path);
    ASSERT_TRUE(uri.ok()) << uri.status();
    EXPECT_EQ(uri->path, path);
    EXPECT_TRUE(uri->options.empty());
    const auto both = ExtentUri::Parse("tar", path + "?fields=x");
    ASSERT_TRUE(both.ok()) << both.status();
    EXPECT_EQ(both->path, path);
    EXPECT_THAT(both->options, ElementsAre(Pair("fields", "x")));
  }
}

TEST(ExtentUriTest, PathsBecomeAbsolute) {
  const auto uri = ExtentUri::Parse("tar", "some/t.tar");
  ASSERT_TRUE(uri.ok());
  EXPECT_EQ(uri->path[0], '/');
  EXPECT_THAT(uri->path, HasSubstr("/some/t.tar"));
  TempFolder folder;
  EXPECT_EQ(ExtentUri::Parse("tar", folder.path() + "/./")->path,
            ExtentUri::Parse("tar", folder.path())->path);
}

// A table's index has the labels that all options give, and its paths are
// relative to the folder of a link.
TEST(ExtentUriTest, TablesKeepLinksAndAllOptions) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "real");
  WriteFile(folder / "real/t.csv", "");
  std::filesystem::create_symlink("real/t.csv", folder / "t.csv");
  std::filesystem::create_symlink("real", folder / "link");
  const std::string real = ExtentUri::Parse("csv", folder.path())->path;
  const auto path = [&](const std::string& rest, bool is_table) {
    return ExtentUri::Parse("csv", folder / rest, is_table)->path;
  };
  EXPECT_EQ(path("t.csv", true), real + "/t.csv");
  EXPECT_EQ(path("t.csv", false), real + "/real/t.csv");
  EXPECT_EQ(path("link/t.csv", true), real + "/real/t.csv");
  EXPECT_EQ(path("link/..", true), real);
  const std::string options =
      "/t.csv?label=c&classes=" + folder / "real/../t.csv" +
      "&num_classes=3&label_offset=1";
  const auto table = ExtentUri::Parse("csv", folder.path() + options, true);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->record_options, "classes=" + real + "/real/t.csv\n" +
                                       "label=c\nlabel_offset=1\n"
                                       "num_classes=3\n");
  EXPECT_EQ(table->classes_file, real + "/real/t.csv");
  EXPECT_EQ(table->num_classes, 3);
  EXPECT_EQ(table->label_offset, 1);
  EXPECT_THAT(table->options, ElementsAre(Pair("label", "c")));
  EXPECT_EQ(ExtentUri::Parse("csv", folder.path() + options)->record_options,
            "label=c\nlabel_offset=1\n");
}

TEST(ExtentUriTest, WrongOptionsAreNamed) {
  const auto message = [](const std::string& rest) {
    const auto uri = ExtentUri::Parse("tar", rest);
    EXPECT_TRUE(absl::IsInvalidArgument(uri.status())) << uri.status();
    return std::string(uri.status().message());
  };
  EXPECT_THAT(message(""), HasSubstr("write tar:PATH"));
  EXPECT_THAT(message("?classes=a"), HasSubstr("write tar:PATH"));
  EXPECT_THAT(message("/a?num_classes=0"), HasSubstr("num_classes=0 is wrong"));
  EXPECT_THAT(message("/a?label_offset=x"),
              HasSubstr("label_offset=x is wrong"));
  EXPECT_THAT(message("/a?classes="), HasSubstr("expected a file"));
  EXPECT_THAT(message("/a?a=1&a=2"), HasSubstr("option a is given twice"));
}

TEST(ExtentUriTest, UnknownOptionsWithTheNearestName) {
  EXPECT_TRUE(CheckOptions("tar", {{"fields", "x"}}, {"fields"}).ok());
  const absl::Status status =
      CheckOptions("tar", {{"label_ofset", "1"}}, {"fields"});
  EXPECT_TRUE(absl::IsInvalidArgument(status) && IsUsageError(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'label_ofset'; did you mean label_offset?"),
                    HasSubstr("classes, fields, label_offset, num_classes")));
}

class ApplyTest : public ::testing::Test {
 protected:
  ApplyTest() {
    WriteFile(names_, "cat\r\ndog\nstring\xC3\xA9\n");
    Field& label = *schema_.add_fields();
    label.set_name("label");
    label.set_kind(FIELD_KIND_TENSOR);
    label.set_dtype(DTYPE_INT64);
    label.set_num_classes(2);
  }
  absl::Status Apply(const std::string& options, int field = 0) {
    const auto uri = ExtentUri::Parse("tar", absl::StrCat("/a", options));
    EXPECT_TRUE(uri.ok()) << uri.status();
    return uri->ApplyTo(field, &schema_);
  }
  std::string Message(const std::string& options, int field = 0) {
    const absl::Status status = Apply(options, field);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  TempFolder folder_;
  const std::string names_ = folder_ / "names";
  Schema schema_;
};

TEST_F(ApplyTest, NamesAndNumbers) {
  EXPECT_TRUE(Apply("").ok());
  EXPECT_EQ(schema_.fields(0).num_classes(), 2);
  EXPECT_TRUE(Apply("?num_classes=9").ok());
  EXPECT_EQ(schema_.fields(0).num_classes(), 9);
  schema_.mutable_fields(0)->set_num_classes(0);
  EXPECT_TRUE(Apply("?classes=" + names_).ok());
  EXPECT_EQ(schema_.fields(0).num_classes(), 3);
  EXPECT_THAT(schema_.fields(0).class_names(),
              ElementsAre("cat", "dog", "string\xC3\xA9"));
}

TEST_F(ApplyTest, OptionsThatDoNotFit) {
  EXPECT_THAT(Message("?num_classes=3", -1), HasSubstr("need a field"));
  EXPECT_THAT(Message("?num_classes=1"),
              HasSubstr("num_classes=1, but the largest class index of field "
                        "'label' is 1"));
  EXPECT_THAT(Message("?num_classes=4&classes=" + names_),
              HasSubstr("has the names of 3 classes"));
  WriteFile(names_, "cat\n\ndog\n");
  EXPECT_THAT(Message("?classes=" + names_),
              HasSubstr("line 2 of " + names_ + " is empty"));
  WriteFile(names_, "\xFF\n");
  EXPECT_THAT(Message("?classes=" + names_), HasSubstr("is no UTF-8"));
  WriteFile(names_, "cat");
  EXPECT_THAT(Message("?classes=" + names_), HasSubstr("has 1 name,"));
  EXPECT_TRUE(absl::IsNotFound(Apply("?classes=/none/names")));
}

}  // namespace
}  // namespace millrace::storage
