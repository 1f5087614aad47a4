// Columns of a Parquet file that a server's cache of decoded row groups has no
// room for: the server ended with 1 where no column has room, as if another
// start could help, and `--check_config` with 0 where one of several has none.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 2;
constexpr int32_t kPageBytes = 6 << 20;

std::shared_ptr<arrow::Array> Pages() {
  arrow::UInt8Builder bytes;
  uint32_t state = 1;
  for (int64_t i = 0; i < kRows * kPageBytes; ++i) {
    state = state * 1664525 + 1013904223;
    EXPECT_TRUE(bytes.Append(static_cast<uint8_t>(state >> 24)).ok());
  }
  return *arrow::FixedSizeListArray::FromArrays(*bytes.Finish(), kPageBytes);
}

std::shared_ptr<arrow::Array> Labels() {
  arrow::Int64Builder labels;
  for (int64_t row = 0; row < kRows; ++row) {
    EXPECT_TRUE(labels.Append(row).ok());
  }
  return *labels.Finish();
}

// The MiB that are named behind `words`.
int Advised(const std::string& text, const std::string& words) {
  const std::string start = absl::StrCat(words, "--memory_budget=");
  const size_t at = text.rfind(start);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? 0 : std::atoi(&text[at + start.size()]);
}

class ColumnBudgetTest : public ::testing::Test {
 protected:
  void Write(const arrow::FieldVector& fields,
             const arrow::ArrayVector& columns) {
    const auto file =
        *arrow::io::FileOutputStream::Open(folder_ + "/d.parquet");
    ASSERT_TRUE(
        parquet::arrow::WriteTable(
            *arrow::Table::Make(arrow::schema(fields), columns),
            arrow::default_memory_pool(), file, 1,
            parquet::default_writer_properties(),
            // Without it a list has no fixed size.
            parquet::ArrowWriterProperties::Builder().store_schema()->build())
            .ok());
    ASSERT_TRUE(file->Close().ok());
  }
  void WriteBoth() {
    const auto pages = Pages();
    Write({arrow::field("label", arrow::int64()),
           arrow::field("page", pages->type())},
          {Labels(), pages});
  }

  std::vector<std::string> Flags(int budget_mib) const {
    return {absl::StrCat("--dataset=d=parquet:", folder_, "/d.parquet"),
            "--threads=1", absl::StrCat("--memory_budget=", budget_mib, "MiB")};
  }

  ProgramResult Run(int budget_mib, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = Flags(budget_mib);
    arguments.insert(arguments.begin(), ProgramPath("server/millrace-server"));
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProgram(arguments);
  }
  ProgramResult Check(int budget_mib) const {
    return Run(budget_mib, {"--check_config"});
  }

  const std::string folder_ = NewTempDir();
};

TEST_F(ColumnBudgetTest, ADatasetWithoutAColumnThatFitsIsAMistake) {
  const auto pages = Pages();
  ASSERT_NO_FATAL_FAILURE(
      Write({arrow::field("page", pages->type())}, {pages}));
  const ProgramResult refused = Run(20);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("the server cannot serve any of its columns"),
                    HasSubstr("(columns 'page' ")));
  const int advised = Advised(refused.err, "give the server ");
  const auto server = ServerProcess::Start(Flags(advised));
  ASSERT_TRUE(server.ok()) << advised << server.status();
  EXPECT_EQ((*server)->Stop(), 0);
  EXPECT_FALSE(ServerProcess::Start(Flags(advised - 1)).ok()) << advised;
}

TEST_F(ColumnBudgetTest, CheckConfigRefusesColumnsThatDoNotFitTogether) {
  ASSERT_NO_FATAL_FAILURE(WriteBoth());
  const ProgramResult refused = Check(20);
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("columns 'label' "));
  const int advised = Advised(refused.err, "the smallest sufficient value is ");
  EXPECT_GT(advised, 20);
  EXPECT_EQ(Check(advised).exit_code, 0) << advised << Check(advised).err;
  EXPECT_EQ(Check(advised - 1).exit_code, 2) << advised;
  // Jobs on the other column are served.
  const auto server = ServerProcess::Start(Flags(20));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->Stop(), 0);
}

TEST_F(ColumnBudgetTest, APipelineSaysWhichColumnsMustFit) {
  ASSERT_NO_FATAL_FAILURE(WriteBoth());
  const std::string pipeline = folder_ + "/p.textproto";
  const std::vector<std::string> flags = {"--check_config",
                                          "--check_pipeline=" + pipeline};
  WriteFile(pipeline, "batch_size: 2 outputs { field: 'label' }");
  const ProgramResult named = Run(20, flags);
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out,
              AllOf(HasSubstr("does not fit"), HasSubstr("columns 'label' "),
                    HasSubstr(pipeline)));
  const int for_all = Advised(named.out, "the smallest sufficient value is ");
  EXPECT_EQ(Check(for_all).exit_code, 0) << for_all;
  WriteFile(pipeline, "batch_size: 2 outputs { field: 'page' }");
  const ProgramResult refused = Run(20, flags);
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  const int advised = Advised(refused.err, "the smallest sufficient value is ");
  EXPECT_EQ(Run(advised, flags).exit_code, 0) << advised;
}

}  // namespace
}  // namespace millrace::testing
