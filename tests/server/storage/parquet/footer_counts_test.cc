// What is known of a footer before it is parsed, beside what Arrow says of it
// afterwards.

#include "server/storage/parquet/footer_counts.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/storage/parquet/parquet_file.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace {
namespace {

class FooterCountsTest : public ::testing::Test {
 protected:
  // 40 rows: numbers, lists of structs of a number and a string, numbers.
  void SetUp() override {
    constexpr int64_t kRows = 40;
    arrow::Int64Builder numbers;
    arrow::StringBuilder names;
    arrow::Int32Builder offsets;
    for (int64_t row = 0; row < kRows; ++row) {
      ASSERT_TRUE(numbers.Append(row).ok());
      ASSERT_TRUE(names.Append(absl::StrCat("name ", row)).ok());
      ASSERT_TRUE(offsets.Append(static_cast<int32_t>(row)).ok());
    }
    ASSERT_TRUE(offsets.Append(kRows).ok());
    const std::shared_ptr<arrow::Array> number = *numbers.Finish();
    const std::shared_ptr<arrow::Array> pairs = *arrow::StructArray::Make(
        {number, *names.Finish()}, std::vector<std::string>{"n", "name"});
    const std::shared_ptr<arrow::Array> lists =
        *arrow::ListArray::FromArrays(*(*offsets.Finish()), *pairs);
    const auto table =
        arrow::Table::Make(arrow::schema({arrow::field("a", number->type()),
                                          arrow::field("pairs", lists->type()),
                                          arrow::field("b", number->type())}),
                           {number, lists, number});
    const auto out = *arrow::io::FileOutputStream::Open(path_);
    ASSERT_TRUE(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 5)
            .ok());
    ASSERT_TRUE(out->Close().ok());
    const auto file = ParquetFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *file;
    footer_ = *file_->ReadFooter();
  }

  const TempFolder folder_;
  const std::string path_ = folder_ / "d.parquet";
  std::shared_ptr<const ParquetFile> file_;
  std::string footer_;
};

TEST_F(FooterCountsTest, AreThoseOfTheParsedFooter) {
  const auto counts = CountFooter(footer_, footer_.size());
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(counts->row_groups, 8u);
  EXPECT_EQ(counts->columns, 4u);
  // pairs.list.element.n
  EXPECT_EQ(counts->path_names, 1u + 4 + 4 + 1);
  EXPECT_EQ(counts->ParsedBytes(footer_.size()), file_->metadata_bytes());
}

TEST_F(FooterCountsTest, TheBeginningIsEnough) {
  const auto whole = CountFooter(footer_, footer_.size());
  ASSERT_TRUE(whole.has_value());
  size_t enough = 0;  // prefixes that hold the schema
  for (size_t bytes = 0; bytes < footer_.size(); ++bytes) {
    const auto counts = CountFooter(footer_.substr(0, bytes), footer_.size());
    if (!counts.has_value()) continue;
    ++enough;
    EXPECT_EQ(counts->row_groups, whole->row_groups) << bytes;
    EXPECT_EQ(counts->path_names, whole->path_names) << bytes;
  }
  EXPECT_GT(enough, footer_.size() / 2);
}

// Row groups that the bytes behind them cannot hold: a server must not be told
// to take a larger budget for them.
TEST_F(FooterCountsTest, MoreThanTheFooterHoldsIsDamage) {
  const auto counts = CountFooter(footer_, footer_.size());
  ASSERT_TRUE(counts.has_value());
  EXPECT_TRUE(CountFooter(footer_, counts->chunks() * 16).has_value());
  EXPECT_FALSE(CountFooter(footer_, counts->chunks() * 16 - 1).has_value());
}

TEST_F(FooterCountsTest, AFooterThatIsNotAdmittedIsNotParsed) {
  uint64_t told = 0;
  const auto file =
      ParquetFile::Open(path_, [&told](uint64_t bytes, uint64_t chunks) {
        told = bytes;
        EXPECT_EQ(chunks, 32u);
        return absl::ResourceExhaustedError("no room");
      });
  EXPECT_TRUE(absl::IsResourceExhausted(file.status())) << file.status();
  EXPECT_EQ(told, file_->metadata_bytes());
}

}  // namespace
}  // namespace millrace
