#include "server/storage/csv/path_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

const std::string kFile = "/data/labels.csv";

absl::StatusOr<PathTable> Parse(const std::string& text,
                                const FormatOptions& options = {}) {
  const auto parsed = ParseCsvOptions(kFile, options);
  if (!parsed.ok()) return parsed.status();
  return PathTable::Parse(text, kFile, *parsed);
}

int64_t IntOf(absl::Span<const uint8_t> bytes) {
  int64_t value = 0;
  EXPECT_EQ(bytes.size(), sizeof(value));
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

// "PATH=LABEL,LABEL" of each row, of labels that are integers.
std::vector<std::string> RowsOf(const absl::StatusOr<PathTable>& table) {
  if (!table.ok()) return {table.status().ToString()};
  std::vector<std::string> rows;
  for (int64_t row = 0; row < table->rows(); ++row) {
    std::vector<std::string> labels;
    for (int i = 0; i + 1 < table->schema().fields_size(); ++i) {
      labels.push_back(absl::StrCat(IntOf(table->value(i + 1, row))));
    }
    rows.push_back(
        absl::StrCat(table->path(row), "=", absl::StrJoin(labels, ",")));
  }
  return rows;
}

using Rows = std::vector<std::string>;

TEST(PathTable, TheFirstColumnIsThePathTheOtherTheLabel) {
  const auto table =
      Parse("file,class\nimages/b.jpg,dog\na.png,cat\n/other/c.jpg,dog\n");
  EXPECT_EQ(RowsOf(table),
            Rows({"/data/images/b.jpg=1", "/data/a.png=0", "/other/c.jpg=1"}));
  const Schema& schema = table->schema();
  ASSERT_EQ(schema.fields_size(), 2);
  EXPECT_EQ(schema.fields(0).name(), "image");
  EXPECT_EQ(schema.fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(schema.fields(1).name(), "label");
  EXPECT_EQ(schema.fields(1).num_classes(), 2);
  EXPECT_EQ(schema.fields(1).class_names(0), "cat");
  EXPECT_EQ(table->line(0), 2);
}

TEST(PathTable, OptionsNameTheColumns) {
  const std::string text = "id,age,file,sex\n7,31,a.jpg,f\n8,5,b.jpg,m\n";
  EXPECT_EQ(RowsOf(Parse(text, {{"path", "file"}, {"label", "age"}})),
            Rows({"/data/a.jpg=31", "/data/b.jpg=5"}));
  const auto both = Parse(text, {{"path", "file"}, {"label", "sex,age"}});
  EXPECT_EQ(RowsOf(both), Rows({"/data/a.jpg=0,31", "/data/b.jpg=1,5"}));
  EXPECT_EQ(both->schema().fields(1).name(), "sex");
  EXPECT_EQ(both->schema().fields(2).name(), "age");
  EXPECT_EQ(RowsOf(Parse("class,file\n1,a.jpg\n", {{"path", "file"}})),
            Rows({"/data/a.jpg=1"}));
}

TEST(PathTable, ATableMayHaveNoHeader) {
  EXPECT_EQ(RowsOf(Parse("a.jpg,3\nb.jpg,4\n", {{"header", "no"}})),
            Rows({"/data/a.jpg=3", "/data/b.jpg=4"}));
  EXPECT_EQ(RowsOf(Parse("3,x,a.jpg\n",
                         {{"header", "no"}, {"path", "3"}, {"label", "1"}})),
            Rows({"/data/a.jpg=3"}));
}

// Otherwise the first sample would be missing, and nobody would notice.
TEST(PathTable, AFirstLineWithAnImageIsNoHeader) {
  const auto table = Parse("a.jpg,3\nb.jpg,4\n");
  EXPECT_EQ(table.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(table.status().message(),
            "/data/labels.csv: line 1 is 'a.jpg' where the name of a column is "
            "expected: if the table has no header, add header=no");
}

TEST(PathTable, BoxesAreTheLastField) {
  const std::string text =
      "file,x,y,r,b,list,class\na.jpg,1,2,3,4,[],cat\nb.jpg,5,6,7,8,"
      "\"[[1,2,3,4],[5,6,7,8]]\",dog\n";
  const auto one = Parse(text, {{"boxes", "x,y,r,b"}, {"label", "class"}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->labels(), 1);
  ASSERT_EQ(one->schema().fields_size(), 3);
  EXPECT_EQ(one->schema().fields(2).name(), "boxes");
  EXPECT_EQ(one->value(2, 1).size(), 16);
  EXPECT_EQ(IntOf(one->value(1, 1)), 1);
  const auto many = Parse(text, {{"boxes", "list"}, {"label", ""}});
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->labels(), 0);
  ASSERT_EQ(many->schema().fields_size(), 2);
  EXPECT_EQ(many->schema().fields(1).kind(), FIELD_KIND_RAGGED);
  EXPECT_EQ(many->value(1, 0).size(), 0);
  EXPECT_EQ(many->value(1, 1).size(), 32);
  // The only other column is the label.
  EXPECT_EQ(
      Parse("file,b,class\na.jpg,1 2 3 4,cat\n", {{"boxes", "b"}})->labels(),
      1);
  EXPECT_EQ(Parse("file,b\na.jpg,1 2 3 4\n", {{"boxes", "b"}})->labels(), 0);
  for (const auto& [options, says] :
       {std::pair(FormatOptions{{"boxes", "list"}},
                  "name the columns of the labels"),
        std::pair(FormatOptions{{"boxes", "list"}, {"label", "list"}},
                  "column 'list' is named twice by path=, label= and boxes="),
        std::pair(FormatOptions{{"boxes", "w"}, {"label", ""}},
                  "there is no column 'w'")}) {
    EXPECT_THAT(Parse(text, options).status().message(), HasSubstr(says));
  }
  EXPECT_THAT(
      Parse("file,b\na.jpg,1 2 3 4\nb.jpg,1 2\n", {{"boxes", "b"}})
          .status()
          .message(),
      HasSubstr("/data/labels.csv: line 3 has the boxes '1 2', and there are "
                "2 numbers"));
}

TEST(PathTable, PathsHaveOddBytes) {
  EXPECT_EQ(RowsOf(Parse("f,l\n\"a, \"\"b\"\".jpg\",1\n\xFF\x01.jpg,2\n")),
            Rows({"/data/a, \"b\".jpg=1", "/data/\xFF\x01.jpg=2"}));
}

TEST(PathTable, NamesTheLineOfABadRow) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"f,l\na.jpg,1\nb.jpg\n",
       "/data/labels.csv: line 3 has 1 cell, and line 1 has 2"},
      {"f,l\na.jpg,1\n\nb.jpg,1,2\n", "line 4 has 3 cells, and line 1 has 2"},
      {"f,l\n,1\n", "/data/labels.csv: line 2 has no path"},
      {"f,l\na.jpg,\n",
       "/data/labels.csv: line 2 has no value in column "
       "'label'"},
      {"f,l\n\"two\nlines\",1\nb.jpg,\n", "line 4 has no value"},
      {"f,l\na.jpg,\"1\n", "/data/labels.csv: line 2: a quote is not closed"},
      {"\"f,l\n", "/data/labels.csv: line 1: a quote is not closed"},
      {"", "/data/labels.csv has no rows"},
      {"f,l\n", "/data/labels.csv has a header and no rows"},
      {"f,class\na.jpg,1\nb.jpg,nan\nc.jpg,3\n",
       "/data/labels.csv: line 3 has 'nan' in column 'class', and 2 of 3 rows "
       "have numbers there"},
  };
  for (const auto& each : cases) {
    const auto table = Parse(each.text);
    EXPECT_EQ(table.status().code(), absl::StatusCode::kDataLoss) << each.text;
    EXPECT_THAT(table.status().message(), HasSubstr(each.says)) << each.text;
  }
}

TEST(PathTable, AdvisesOptionsForTheColumnsThatAreThere) {
  const auto says = [](const std::string& text) {
    return std::string(Parse(text).status().message());
  };
  EXPECT_THAT(says("file;class\na.jpg;1\n"), HasSubstr("separator=semicolon"));
  EXPECT_THAT(says("file\tclass\na.jpg\t1\n"), HasSubstr("separator=tab"));
  EXPECT_THAT(says("file\na.jpg\n"), HasSubstr("label="));
}

TEST(PathTable, RefusesOptionsThatDoNotFit) {
  const std::string text = "file,a,b,b,image\nx.jpg,1,2,3,4\n";
  const struct {
    FormatOptions options;
    const char* says;
  } cases[] = {
      {{},
       "/data/labels.csv: name the columns of the labels, for example "
       "label=class, or none with label=; its columns are 'file', 'a', 'b', "
       "'b', 'image'"},
      {{{"path", "c"}}, "there is no column 'c'; its columns are 'file', "},
      {{{"label", "b"}}, "there are two columns 'b'"},
      {{{"label", "a,a"}}, "column 'a' is named twice"},
      {{{"label", "file"}}, "column 'file' is named twice"},
      {{{"label", "a,image"}}, "/data/labels.csv: "},
      {{{"header", "no"}, {"label", "9"}}, "'5' (header=no)"},
  };
  for (const auto& each : cases) {
    const auto table = Parse(text, each.options);
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(table.status().message(), HasSubstr(each.says));
  }
}

// Files of the sizes of a map.

}  // namespace
}  // namespace millrace::storage
