// Lists in row groups that the cache does not hold: a slice is decoded without
// the pages in front of it, and a file for which that is not possible is named
// with a way out.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/page_index.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "server/storage/open.h"
#include "server/storage/parquet/page_rows.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = 1 << 20;

void Write(const std::string& path, const std::shared_ptr<arrow::Array>& column,
           int64_t group_rows, parquet::WriterProperties::Builder properties) {
  const auto file = *arrow::io::FileOutputStream::Open(path);
  const arrow::Status status = parquet::arrow::WriteTable(
      *arrow::Table::Make(
          arrow::schema({arrow::field("tokens", column->type())}), {column}),
      arrow::default_memory_pool(), file, group_rows, properties.build(),
      parquet::ArrowWriterProperties::Builder().store_schema()->build());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(file->Close().ok());
}

// Pages of version 1 without an index.
parquet::WriterProperties::Builder WithoutIndex() {
  parquet::WriterProperties::Builder properties;
  properties.disable_write_page_index();
  return properties;
}

absl::StatusOr<std::string> ReadTokens(RecordReader& reader, int64_t row) {
  std::string bytes;
  const absl::Status status =
      reader.Read(row, [&](const EncodedSample& sample) {
        bytes.assign(sample.fields[0].begin(), sample.fields[0].end());
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return bytes;
}

// Bytes that this process has read from files.
int64_t BytesRead() {
  const std::string text = ReadFile("/proc/self/io");
  return std::stoll(text.substr(text.find("rchar: ") + 7));
}

// Lists in one row group, which a cache of 6 MiB does not hold.
class ListPagesTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 500;
  static constexpr int64_t kValues = 5000;
  static int32_t Value(int64_t row, int64_t i) {
    return static_cast<int32_t>(row * kValues + i);
  }
  void WriteLists(parquet::WriterProperties::Builder properties,
                  int64_t group_rows = kRows) {
    arrow::Int32Builder values;
    for (int64_t i = 0; i < kRows * kValues; ++i) {
      ASSERT_TRUE(values.Append(Value(0, i)).ok());
    }
    const auto type = arrow::fixed_size_list(arrow::int32(), kValues);
    const auto lists = std::make_shared<arrow::FixedSizeListArray>(
        type, kRows, *values.Finish());
    properties.disable_dictionary()->write_batch_size(kValues);
    Write(path_, lists, group_rows, properties);
  }
  // The same values as ragged lists, in pages of version 1 that end anywhere.
  void WriteSplitLists() {
    namespace schema = parquet::schema;
    const auto root = schema::GroupNode::Make(
        "schema", parquet::Repetition::REQUIRED,
        {schema::GroupNode::Make(
            "tokens", parquet::Repetition::REQUIRED,
            {schema::GroupNode::Make(
                "list", parquet::Repetition::REPEATED,
                {schema::PrimitiveNode::Make("element",
                                             parquet::Repetition::REQUIRED,
                                             parquet::Type::INT32)})},
            parquet::LogicalType::List())});
    const auto file = *arrow::io::FileOutputStream::Open(path_);
    auto properties = WithoutIndex();
    properties.disable_dictionary()->data_pagesize(97'000);
    const auto writer = parquet::ParquetFileWriter::Open(
        file, std::static_pointer_cast<schema::GroupNode>(root),
        properties.build());
    auto* const column = static_cast<parquet::Int32Writer*>(
        writer->AppendRowGroup()->NextColumn());
    constexpr int64_t kPiece = 777;
    const std::vector<int16_t> definition(kPiece, 1);
    for (int64_t begin = 0; begin < kRows * kValues; begin += kPiece) {
      const int64_t count = std::min(kPiece, kRows * kValues - begin);
      std::vector<int16_t> repetition;
      std::vector<int32_t> values;
      for (int64_t i = begin; i < begin + count; ++i) {
        repetition.push_back(i % kValues == 0 ? 0 : 1);
        values.push_back(Value(0, i));
      }
      column->WriteBatch(count, definition.data(), repetition.data(),
                         values.data());
    }
    writer->Close();
    ASSERT_TRUE(file->Close().ok());
  }

  // What the reads of ReadLists() took.
  struct Reads {
    int64_t first_bytes = 0;  // of the last row, before all others
    int64_t later_bytes = 0;  // of a row in the middle, after others
    std::string logged;
  };
  void ReadLists(Reads* reads) {
    ByteBudget budget(6 * kMiB);
    const auto source = Open(budget);
    ASSERT_TRUE(source.ok()) << source.status();
    ::testing::internal::CaptureStderr();
    const auto reader = (*source)->NewReader();
    for (const int64_t row : {kRows - 1, int64_t{0}, int64_t{250}}) {
      const int64_t before = BytesRead();
      const auto bytes = ReadTokens(**reader, row);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      (row == kRows - 1 ? reads->first_bytes : reads->later_bytes) =
          BytesRead() - before;
      ASSERT_EQ(bytes->size(), kValues * sizeof(int32_t));
      const auto* values = reinterpret_cast<const int32_t*>(bytes->data());
      for (int64_t i = 0; i < kValues; ++i) {
        ASSERT_EQ(values[i], Value(row, i)) << row << " " << i;
      }
    }
    reads->logged = ::testing::internal::GetCapturedStderr();
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> Open(ByteBudget& budget) {
    return OpenRecordSource(absl::StrCat("parquet:", path_),
                            {.cache_budget = &budget,
                             .cache_bytes = budget.capacity(),
                             .cache_advice = [](uint64_t bytes) {
                               return absl::StrCat("give the server ", bytes,
                                                   " bytes");
                             }});
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "d.parquet";
};

// Pages of lists in version 1 do not say how many lists they contain: each
// slice was decoded from the first row of the row group on.
TEST_F(ListPagesTest, ListsOfPagesOfVersion1AreCountedOnce) {
  auto small_pages = WithoutIndex();
  small_pages.data_pagesize(100'000);
  auto version_2 = small_pages;
  version_2.data_page_version(parquet::ParquetDataPageVersion::V2);
  auto indexed = small_pages;
  indexed.enable_write_page_index();
  for (const bool counted : {true, false}) {
    for (const auto& properties :
         counted ? std::vector{small_pages} : std::vector{version_2, indexed}) {
      WriteLists(properties);
      Reads reads;
      ASSERT_NO_FATAL_FAILURE(ReadLists(&reads));
      if (counted) {
        EXPECT_GT(reads.first_bytes, 9 << 20) << "all pages are counted";
      } else {
        EXPECT_LT(reads.first_bytes, 3 << 20);
      }
      EXPECT_LT(reads.later_bytes, 3 << 20);
      EXPECT_EQ(reads.logged, "");
    }
  }
}

TEST_F(ListPagesTest, PagesThatBeginInsideOfListsAreSlowAndNamed) {
  ASSERT_NO_FATAL_FAILURE(WriteSplitLists());
  Reads reads;
  ASSERT_NO_FATAL_FAILURE(ReadLists(&reads));
  EXPECT_THAT(reads.logged,
              HasSubstr(absl::StrCat(
                  path_, ": random reads of column 'tokens' are slow: ")));
  EXPECT_THAT(reads.logged, HasSubstr("row group 0 (500 rows)"));
  EXPECT_THAT(reads.logged, HasSubstr("its pages begin inside of lists"));
  // Once is enough.
  EXPECT_EQ(reads.logged.find("are slow"), reads.logged.rfind("are slow"));
  // The ways out that are named, which ListsOfPagesOfVersion1AreCountedOnce
  // tries, and this one.
  EXPECT_THAT(reads.logged, HasSubstr("data_page_version='2.0'"));
  EXPECT_THAT(reads.logged, HasSubstr("write_page_index=True"));
  const std::string groups = "row groups of at most ";
  ASSERT_THAT(reads.logged, HasSubstr(groups));
  const int64_t rows = std::stoll(
      reads.logged.substr(reads.logged.find(groups) + groups.size()));
  auto properties = WithoutIndex();
  properties.data_pagesize(100'000);
  WriteLists(properties, rows);
  ASSERT_NO_FATAL_FAILURE(ReadLists(&reads));
  EXPECT_LT(reads.first_bytes, 3 << 20);
  EXPECT_EQ(reads.logged, "");
}

// A damaged page does not keep rows of others from being read, although the
// lists of all pages are counted.
TEST_F(ListPagesTest, ADamagedPageDamagesItsOwnRows) {
  auto properties = WithoutIndex();
  properties.data_pagesize(100'000);
  properties.enable_page_checksum();
  WriteLists(properties);
  std::string bytes = ReadFile(path_);
  for (int64_t i = 0; i < 100; ++i) bytes[bytes.size() * 3 / 4 + i] ^= 0x55;
  WriteFile(path_, bytes);
  ByteBudget budget(6 * kMiB);
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  for (const int64_t row : {100, 200, 300}) {
    const auto read = ReadTokens(**reader, row);
    ASSERT_TRUE(read.ok()) << read.status();
    int32_t first;
    std::memcpy(&first, read->data(), sizeof(first));
    EXPECT_EQ(first, Value(row, 0));
  }
  EXPECT_TRUE(absl::IsDataLoss(ReadTokens(**reader, kRows * 3 / 4).status()));
}

TEST_F(ListPagesTest, RowsAreTheSameOnAnyNumberOfThreads) {
  constexpr int64_t kRagged = 3000;
  auto numbers = std::make_shared<arrow::Int64Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), numbers);
  const auto count = [](int64_t row) { return row % 97 * (row % 5); };
  for (int64_t row = 0; row < kRagged; ++row) {
    ASSERT_TRUE(lists.Append().ok());
    for (int64_t i = 0; i < count(row); ++i) {
      ASSERT_TRUE(numbers->Append(row * 1000 + i).ok());
    }
  }
  auto properties = WithoutIndex();
  properties.data_pagesize(5000)->write_batch_size(100)->disable_dictionary();
  const auto column = *lists.Finish();
  Write(path_, column, kRagged, properties);
  for (const int threads : {1, 4}) {
    ByteBudget budget(4 * kMiB);
    const auto source = Open(budget);
    ASSERT_TRUE(source.ok()) << source.status();
    std::vector<std::thread> readers;
    for (int t = 0; t < threads; ++t) {
      readers.emplace_back([&, t] {
        const auto reader = (*source)->NewReader();
        for (int64_t i = t; i < kRagged / 4; i += threads) {
          const int64_t row = i * 1237 % kRagged;
          const auto bytes = ReadTokens(**reader, row);
          ASSERT_TRUE(bytes.ok()) << bytes.status();
          std::string expected;
          for (int64_t k = 0; k < count(row); ++k) {
            expected += Scalar<int64_t>(row * 1000 + k);
          }
          ASSERT_TRUE(*bytes == expected) << threads << " " << row;
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
  }
}

// A client waited for the first batch, was told that the server is slow or
// stuck, and only then did the server say why. Now the check of the fields says
// so, which is part of opening a pipeline and of --check_config.
TEST_F(ListPagesTest, WhatRandomReadsWillCostIsSaidBeforeTheFirstOne) {
  // Padding: all lists are in one page.
  arrow::Int32Builder values;
  for (int64_t i = 0; i < kRows * kValues; ++i) {
    ASSERT_TRUE(values.Append(i % kValues < 3 ? 7 : 0).ok());
  }
  const auto type = arrow::fixed_size_list(arrow::int32(), kValues);
  const auto lists = std::make_shared<arrow::FixedSizeListArray>(
      type, kRows, *values.Finish());
  Write(path_, lists, kRows, WithoutIndex());
  ByteBudget budget(6 * kMiB);
  ::testing::internal::CaptureStderr();
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "")
      << "the column may be in no pipeline";
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE((*source)->CheckFields({true}).ok());
  const std::string logged = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, HasSubstr(path_ + ": random reads of column 'tokens' are "
                                        "slow: for each row of a batch, about "
                                        "2"));
  EXPECT_THAT(logged, HasSubstr("other rows of row group 0 are decoded, "
                                "because its pages contain about 500 rows"));
  EXPECT_THAT(logged, HasSubstr("row_group_size="));
  // It is logged once, and every client can be told.
  ::testing::internal::CaptureStderr();
  for (int client = 0; client < 2; ++client) {
    const std::vector<std::string> warnings = (*source)->WarningsOf({true});
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(logged, HasSubstr(warnings[0]));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  // The cache that is named holds what was decoded once.
  constexpr char kAdvice[] = "give the server ";
  const size_t at = logged.find(kAdvice);
  ASSERT_NE(at, std::string::npos) << logged;
  const uint64_t all = std::stoull(logged.substr(at + sizeof(kAdvice) - 1));
  ByteBudget larger(all);
  const auto cached = Open(larger);
  ASSERT_TRUE(cached.ok()) << cached.status();
  EXPECT_TRUE((*cached)->WarningsOf({true}).empty());
  ::testing::internal::CaptureStderr();
  const auto reader = (*cached)->NewReader();
  int64_t before = 0;
  for (const int pass : {1, 2}) {
    before = BytesRead();
    for (int64_t row = kRows - 1; row >= 0; --row) {
      ASSERT_TRUE(ReadTokens(**reader, row).ok()) << pass << " " << row;
    }
  }
  EXPECT_LT(BytesRead() - before, 2000) << "the second pass reads no page";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// Pages of version 2 do not help where a page has many times the rows.
TEST_F(ListPagesTest, LargePagesAreNamed) {
  auto properties = WithoutIndex();
  properties.data_page_version(parquet::ParquetDataPageVersion::V2);
  properties.data_pagesize(2'000'000);
  WriteLists(properties);
  Reads reads;
  ASSERT_NO_FATAL_FAILURE(ReadLists(&reads));
  EXPECT_THAT(reads.logged,
              HasSubstr("its pages contain many rows; write the file again "
                        "with row groups of at most "));
  EXPECT_THAT(reads.logged, HasSubstr("max_rows_per_page"));
  EXPECT_THAT(reads.logged, Not(HasSubstr("data_page_version")));
}

TEST_F(ListPagesTest, BoundsAreThoseOfThePageIndex) {
  // Lists of lists, some of them empty or null.
  auto numbers = std::make_shared<arrow::Int32Builder>();
  auto inner = std::make_shared<arrow::ListBuilder>(
      arrow::default_memory_pool(), numbers);
  arrow::ListBuilder lists(arrow::default_memory_pool(), inner);
  constexpr int64_t kLists = 2000;
  for (int64_t row = 0; row < kLists; ++row) {
    ASSERT_TRUE((row % 13 == 5 ? lists.AppendNull() : lists.Append()).ok());
    for (int64_t i = 0; row % 13 != 5 && i < row % 4; ++i) {
      ASSERT_TRUE(inner->Append().ok());
      for (int64_t k = 0; k < (row + i) % 9; ++k) {
        ASSERT_TRUE(numbers->Append(static_cast<int32_t>(row * k)).ok());
      }
    }
  }
  const auto column = *lists.Finish();
  for (const auto codec :
       {arrow::Compression::UNCOMPRESSED, arrow::Compression::ZSTD}) {
    for (const auto version : {parquet::ParquetDataPageVersion::V1,
                               parquet::ParquetDataPageVersion::V2}) {
      parquet::WriterProperties::Builder properties;
      Write(path_, column, kLists,
            *properties.data_pagesize(400)
                 ->write_batch_size(50)
                 ->compression(codec)
                 ->data_page_version(version));
      const auto reader = parquet::ParquetFileReader::OpenFile(path_);
      const auto index =
          reader->GetPageIndexReader()->RowGroup(0)->GetOffsetIndex(0);
      std::vector<int64_t> expected;
      for (const auto& page : index->page_locations()) {
        expected.push_back(page.first_row_index);
      }
      expected.push_back(kLists);
      ASSERT_GT(expected.size(), 10u);
      const auto pages = reader->RowGroup(0)->GetColumnPageReader(0);
      const auto bounds = CountPageRows(*pages, 2, kLists);
      ASSERT_NE(bounds, nullptr);
      EXPECT_EQ(*bounds, expected);
      // Not of this chunk.
      const auto again = reader->RowGroup(0)->GetColumnPageReader(0);
      EXPECT_EQ(CountPageRows(*again, 2, kLists + 1), nullptr);
    }
  }
}

TEST(PageRows, KeepsWhatWasUsedLast) {
  const auto bounds = [](int64_t pages) {
    return std::make_shared<const std::vector<int64_t>>(pages);
  };
  PageRows rows(64 << 10);
  const PageRows::Key first = {.shard = 1}, second = {.group = 1};
  EXPECT_EQ(rows.Find(first), nullptr);
  const auto kept = bounds(3000);
  rows.Keep(first, kept);
  rows.Keep(first, bounds(1));
  EXPECT_EQ(rows.Find(first), kept);
  rows.Keep(second, bounds(3000));
  EXPECT_EQ(rows.Find(first), kept);
  EXPECT_GT(rows.bytes(), 48'000u);
  rows.Keep({.leaf = 1}, bounds(3000));
  EXPECT_EQ(rows.Find(first), kept) << "it was used after the second";
  EXPECT_EQ(rows.Find(second), nullptr);
  rows.Keep(second, bounds(100'000));
  EXPECT_EQ(rows.Find(second), nullptr) << "it is larger than all";
  EXPECT_EQ(rows.Find(first), kept);
  for (int i = 0; i < 1000; ++i) rows.Keep({.group = i}, bounds(1 + i % 100));
  EXPECT_LE(rows.bytes(), 64u << 10);
}

}  // namespace
}  // namespace millrace::storage
