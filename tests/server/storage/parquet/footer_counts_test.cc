// What is known of a footer before it is parsed, beside what Arrow says of it
// afterwards.

#include "server/storage/parquet/footer_counts.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/parquet/compact_reader.h"
#include "server/storage/parquet/parquet_file.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/allocation_meter.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

// Thrift's compact protocol.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value > 0x7F; value >>= 7) {
    bytes += static_cast<char>((value & 0x7F) | 0x80);
  }
  return bytes + static_cast<char>(value);
}
// The head of a field; `number` below 64.
std::string Field(int number, uint8_t type) {
  return {static_cast<char>(type), static_cast<char>(2 * number)};
}
std::string Int(int number, int64_t value) {
  return Field(number, CompactReader::kI64) + Varint(2 * value);
}
std::string Int32(int number, int64_t value) {
  return Field(number, CompactReader::kI32) + Varint(2 * value);
}
std::string Name(int number, const std::string& name) {
  return absl::StrCat(Field(number, CompactReader::kBinary),
                      Varint(name.size()), name);
}
std::string Struct(const std::string& fields) {
  return fields + std::string(1, '\0');
}
// Of structs: `claimed` by its head.
std::string List(int number, const std::string& structs, uint64_t claimed) {
  return absl::StrCat(Field(number, CompactReader::kList),
                      std::string(1, '\xFC'), Varint(claimed), structs);
}
std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// One row of a column "x", in a row group with `chunks`.
std::string FooterWithChunks(const std::string& chunks, uint64_t claimed) {
  const std::string schema = Struct(Name(4, "schema") + Int32(5, 1)) +
                             Struct(Int32(1, 1) + Int32(3, 0) + Name(4, "x"));
  const std::string group =
      Struct(List(1, chunks, claimed) + Int(2, 100) + Int(3, 1));
  return Struct(Int32(1, 1) + List(2, schema, 2) + Int(3, 1) +
                List(4, group, 1));
}

// A file that ends with `footer`.
void WriteFooter(const std::string& path, absl::string_view before,
                 const std::string& footer) {
  const auto length = static_cast<uint32_t>(footer.size());
  WriteFile(path, absl::StrCat(before, footer,
                               absl::string_view(
                                   reinterpret_cast<const char*>(&length), 4),
                               "PAR1"));
}

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
  EXPECT_EQ(counts->max_path_names, 4u);
  EXPECT_EQ(counts->deepest_column, "pairs");
  // And the schema itself, list and element.
  EXPECT_EQ(counts->elements, 1u + 1 + 1 + 1 + 1 + 2 + 1);
  EXPECT_EQ(counts->name_bytes,
            std::string("schema a pairs list element n name b").size() - 7);
  EXPECT_EQ(counts->ParsedBytes(footer_.size()), file_->metadata_bytes());
  EXPECT_EQ(ParsedBytesOf(footer_), file_->metadata_bytes());
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

// The schema was longer than what was looked at, so the footer was admitted by
// its length alone.
TEST_F(FooterCountsTest, ALongSchemaIsCounted) {
  constexpr int kColumns = 6000;
  arrow::Int32Builder builder;
  for (int32_t row = 0; row < 3; ++row) ASSERT_TRUE(builder.Append(row).ok());
  const std::shared_ptr<arrow::Array> values = *builder.Finish();
  arrow::FieldVector fields;
  for (int i = 0; i < kColumns; ++i) {
    fields.push_back(arrow::field(absl::StrCat("f", i, std::string(200, '_')),
                                  values->type()));
  }
  const std::string path = folder_ / "wide.parquet";
  const auto out = *arrow::io::FileOutputStream::Open(path);
  ASSERT_TRUE(
      parquet::arrow::WriteTable(
          *arrow::Table::Make(arrow::schema(fields),
                              arrow::ArrayVector(fields.size(), values)),
          arrow::default_memory_pool(), out, 1)
          .ok());
  ASSERT_TRUE(out->Close().ok());
  uint64_t told = 0;
  const auto file =
      ParquetFile::Open(path, [&told](uint64_t bytes, uint64_t chunks) {
        told = bytes;
        EXPECT_EQ(chunks, 3u * kColumns);
        return absl::OkStatus();
      });
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string footer = *(*file)->ReadFooter();
  EXPECT_FALSE(CountFooter(footer.substr(0, 1 << 20), footer.size()));
  EXPECT_EQ(told, (*file)->metadata_bytes());
  EXPECT_EQ(told, ParsedBytesOf(footer));
  EXPECT_LT(told, MaxFooterCounts(footer.size()).ParsedBytes(footer.size()));
}

// Of a schema without an end in what is looked at.
TEST_F(FooterCountsTest, WhatIsNotCountedIsReckonedByItsLength) {
  constexpr int kColumns = 2'300'000;
  const std::string footer =
      Struct(List(2,
                  Struct(Name(4, "s") + Int32(5, kColumns)) +
                      Repeat(Struct(Name(4, "")), kColumns),
                  kColumns + 1) +
             List(4, "", 0));
  ASSERT_GT(footer.size(), 8u << 20);
  WriteFooter(path_, "PAR1", footer);
  uint64_t told = 0;
  const auto file =
      ParquetFile::Open(path_, [&told](uint64_t bytes, uint64_t chunks) {
        told = bytes;
        return absl::ResourceExhaustedError("no room");
      });
  EXPECT_TRUE(absl::IsResourceExhausted(file.status())) << file.status();
  EXPECT_GE(told, ParsedBytesOf(footer));
  EXPECT_GE(told, 50 * footer.size());
}

// Thrift allows it; the footer was admitted by its length alone.
TEST_F(FooterCountsTest, TheOrderOfTheFieldsDoesNotMatter) {
  std::map<int64_t, std::string> fields;
  CompactReader reader(footer_);
  int64_t id = 0;
  uint8_t type;
  while (reader.NextField(&id, &type)) {
    const absl::string_view value = reader.rest();
    reader.Skip(type);
    fields[id] =
        absl::StrCat(Field(static_cast<int>(id), type),
                     value.substr(0, value.size() - reader.rest().size()));
  }
  ASSERT_TRUE(reader.ok());
  std::string reordered = fields.extract(4).mapped();
  for (const auto& [number, field] : fields) reordered += field;
  reordered = Struct(reordered);
  const std::string whole = ReadFile(path_);
  WriteFooter(path_, whole.substr(0, whole.size() - 8 - footer_.size()),
              reordered);
  uint64_t told = 0;
  const auto file =
      ParquetFile::Open(path_, [&told](uint64_t bytes, uint64_t chunks) {
        told = bytes;
        EXPECT_EQ(chunks, 32u);
        return absl::OkStatus();
      });
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->row_groups(), 8);
  EXPECT_EQ(told, (*file)->metadata_bytes());
  // The schema is behind what is looked at.
  EXPECT_FALSE(
      CountFooter(reordered.substr(0, reordered.size() / 2), reordered.size()));
}

// Chunks that no column belongs to: the parser took 71 MB for a footer of
// 400 kB that was admitted as one chunk.
TEST_F(FooterCountsTest, RowGroupsThatHoldMoreThanTheSchemaAreNotParsed) {
  constexpr int kChunks = 100'000;
  const std::string chunk = Struct(Int(2, 0));
  const auto expect_damage = [&](const std::string& footer,
                                 const std::string& why) {
    WriteFooter(path_, "PAR1", footer);
    const AllocationMeter meter;
    const absl::Status damaged = ParquetFile::Open(path_).status();
    EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
    EXPECT_THAT(std::string(damaged.message()), HasSubstr(why));
    EXPECT_LT(meter.peak(), 4 << 20);
  };
  const std::string footer = FooterWithChunks(Repeat(chunk, kChunks), kChunks);
  const auto counts = CountFooter(footer, footer.size());
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(counts->chunks(), 1u);
  EXPECT_GT(ParsedBytesOf(footer), 800u * kChunks);
  expect_damage(footer, "more columns than its schema");
  // The parser makes room for what is claimed.
  expect_damage(FooterWithChunks(chunk, kChunks), "damaged footer");
  // So it does for the names of a path.
  const std::string names =
      absl::StrCat(Field(3, CompactReader::kList), "\xF8", Varint(kChunks),
                   std::string(kChunks, '\0'));
  expect_damage(
      FooterWithChunks(
          Struct(Int(2, 0) + Field(3, CompactReader::kStruct) + Struct(names)),
          1),
      "more columns than its schema");
}

// Found by the fuzzer: of two schemas, the columns were summed, the elements
// not.
TEST_F(FooterCountsTest, ASecondSchemaIsCountedToo) {
  const std::string root("\x48\x01r\x15\x04\0", 6);  // two children
  const std::string leaf("\x15\x04\x25\x02\x18\x01\x61\0", 8);
  const std::string schema = "\x3c" + root + leaf + leaf;
  // The field's number in full: it is not larger than the one before.
  const std::string footer =
      "\x15\x02\x19" + schema + "\x09\x04" + schema + "\x29\x0c";
  const auto counts = CountFooter(footer, footer.size());
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(counts->columns, 4);
  EXPECT_EQ(counts->elements, 6);
}

}  // namespace
}  // namespace millrace::storage
