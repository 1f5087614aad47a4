#include "common/program/report.h"

#include <gtest/gtest.h>

namespace millrace::program {
namespace {

TEST(ReportTest, ShowsPeopleLabelsAndProgramsKeys) {
  Report report;
  report.Add("samples", "samples received", uint64_t{60000});
  report.Add("", "for people", absl::string_view("a \"word\""));
  report.Add("rate", "payload", 1.25, "GB/s");
  report.Add("only_json", "", absl::string_view("x"));
  EXPECT_EQ(report.Text(),
            "samples received  60,000\n"
            "for people        a \"word\"\n"
            "payload           1.25 GB/s\n");
  EXPECT_EQ(report.Json(),
            "{\"samples\": 60000, \"rate\": 1.25, \"only_json\": \"x\"}");
}

// "1.234e+04 ms".
TEST(ReportTest, WritesLargeNumbersAsPeopleDo) {
  Report report;
  report.Add("", "a", 9999.0, "ms");
  report.Add("", "b", 9999.6, "ms");
  report.Add("c", "c", 1234567.8, "");
  report.Add("", "d", 2.1e-05, "s");  // "2.1e-05 s"
  EXPECT_EQ(report.Text(), "a  9,999 ms\nb  10,000 ms\nc  1,234,568\nd  0 s\n");
  EXPECT_EQ(report.Json(), "{\"c\": 1.23457e+06}");
}

TEST(TableTest, AlignsColumns) {
  EXPECT_EQ(Table({{"NAME", "N"}, {"a long name", "1"}, {"b", "22"}}),
            "NAME         N\n"
            "a long name  1\n"
            "b            22\n");
}

}  // namespace
}  // namespace millrace::program
