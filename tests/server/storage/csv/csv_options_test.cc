#include "server/storage/csv/csv_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::storage {
namespace {

TEST(CsvOptions, DefaultsFollowTheName) {
  const auto comma = ParseCsvOptions("/data/labels.csv", {});
  ASSERT_TRUE(comma.ok());
  EXPECT_EQ(comma->separator, ',');
  EXPECT_TRUE(comma->header);
  EXPECT_EQ(ParseCsvOptions("/data/labels.TSV", {})->separator, '\t');
}

TEST(CsvOptions, AreParsed) {
  const auto options = ParseCsvOptions("a.tsv", {{"path", "file"},
                                                 {"label", "age,sex"},
                                                 {"header", "no"},
                                                 {"separator", "semicolon"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->path, "file");
  EXPECT_EQ(options->labels, std::vector<std::string>({"age", "sex"}));
  EXPECT_FALSE(options->header);
  EXPECT_EQ(options->separator, ';');
  EXPECT_FALSE(options->no_labels);
  const auto boxes =
      ParseCsvOptions("a.csv", {{"label", ""}, {"boxes", "x,y,r,b"}});
  ASSERT_TRUE(boxes.ok()) << boxes.status();
  EXPECT_TRUE(boxes->no_labels);
  EXPECT_EQ(boxes->boxes, std::vector<std::string>({"x", "y", "r", "b"}));
}

TEST(CsvOptions, BadOnesAreRefusedByName) {
  for (const FormatOptions& options :
       std::vector<FormatOptions>{{{"path", ""}},
                                  {{"label", "a,,b"}},
                                  {{"boxes", ""}},
                                  {{"boxes", "x,y"}},
                                  {{"boxes", "x,y,,b"}},
                                  {{"header", "maybe"}},
                                  {{"separator", "|"}},
                                  {{"delimiter", "comma"}}}) {
    const auto parsed = ParseCsvOptions("a.csv", options);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(),
                ::testing::HasSubstr(options.begin()->first));
  }
}

}  // namespace
}  // namespace millrace::storage
