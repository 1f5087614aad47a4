// What a server's memory budget has for the footers of Parquet files: a file of
// many small row groups is nearly all footer, which the server keeps parsed,
// and which was in no budget.

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
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 2000;
constexpr int64_t kGroupRows = 2;
constexpr int kColumns = 30;
constexpr uint64_t kChunks = kRows / kGroupRows * kColumns;

class FooterBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    arrow::Int64Builder builder;
    for (int64_t row = 0; row < kRows; ++row) {
      ASSERT_TRUE(builder.Append(row).ok());
    }
    const std::shared_ptr<arrow::Array> values = *builder.Finish();
    arrow::FieldVector fields;
    for (int i = 0; i < kColumns; ++i) {
      fields.push_back(arrow::field(absl::StrCat("f", i), values->type()));
    }
    const auto table = arrow::Table::Make(
        arrow::schema(fields), arrow::ArrayVector(fields.size(), values));
    const auto file = *arrow::io::FileOutputStream::Open(path_);
    ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(),
                                           file, kGroupRows)
                    .ok());
    ASSERT_TRUE(file->Close().ok());
  }

  std::vector<std::string> Flags(int budget_mib) const {
    return {"--dataset=d=parquet:" + path_, "--threads=1",
            absl::StrCat("--memory_budget=", budget_mib, "MiB")};
  }

  ProgramResult Check(int budget_mib) const {
    std::vector<std::string> arguments = Flags(budget_mib);
    arguments.insert(arguments.begin(), ProgramPath("server/millrace-server"));
    arguments.push_back("--check_config");
    return RunProgram(arguments);
  }

  const std::string path_ = NewTempDir() + "/d.parquet";
};

// The MiB that are named last.
int Advised(const std::string& text) {
  const std::string flag = "--memory_budget=";
  const size_t at = text.rfind(flag);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? 0 : std::atoi(&text[at + flag.size()]);
}

// They were parsed before the budget was looked at: 280 MiB beside one of 128.
TEST_F(FooterBudgetTest, FootersThatAreLargerThanTheBudgetAreNotParsed) {
  const ProgramResult refused = Check(24);
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  EXPECT_THAT(refused.err,
              HasSubstr("dataset d (parquet:" + path_ +
                        "): the footers of its files need about "));
  EXPECT_THAT(refused.err, HasSubstr("for the footers of Parquet files"));
  EXPECT_THAT(refused.err, HasSubstr("larger row groups"));
  const int advised = Advised(refused.err);
  EXPECT_GT(advised, 24);
  EXPECT_LT(advised, 200);
  const ProgramResult works = Check(advised);
  EXPECT_EQ(works.exit_code, 0) << advised << works.err;
}

TEST_F(FooterBudgetTest, ABudgetWithoutRoomForThemAndABatchIsRefused) {
  const ProgramResult refused = Check(44);
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("for the footers of Parquet files"));
  EXPECT_THAT(refused.err, HasSubstr("larger row groups"));
  EXPECT_THAT(refused.err,
              HasSubstr("dataset d (parquet:" + path_ +
                        "): the footers of its Parquet files use "));
  // The budget that it names works, and no smaller one.
  const int advised = Advised(refused.err);
  const ProgramResult works = Check(advised);
  EXPECT_EQ(works.exit_code, 0) << advised << works.err;
  EXPECT_THAT(works.out, HasSubstr("file metadata"));
  EXPECT_EQ(Check(advised - 1).exit_code, 2) << advised;
}

// The cache of row groups is empty, and was counted as used.
TEST_F(FooterBudgetTest, OfAnIdleServerTheyAreInUseAndTheCacheIsNot) {
  auto server = ServerProcess::Start(Flags(256));
  ASSERT_TRUE(server.ok()) << server.status();
  const auto status = RpcClient((*server)->address()).GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  const uint64_t used =
      status->memory_used_bytes() - status->memory_reserved_bytes();
  EXPECT_GT(used, kChunks * 800);
  EXPECT_LT(used, kChunks * 1200);
  EXPECT_GT(status->memory_reserved_bytes(), (256u << 20) / 100 * 25);
  EXPECT_EQ((*server)->Stop(), 0);
}

}  // namespace
}  // namespace millrace::testing
