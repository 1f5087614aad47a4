// What reading Parquet takes of memory, as Arrow's default pool has seen it: it
// stays within the cache's bytes whatever the files hold. Files are written
// with memory of another pool.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/metadata.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "server/storage/columns/bounded_pool.h"
#include "server/storage/open.h"
#include "server/storage/parquet/parquet_file.h"
#include "server/storage/parquet/slice_plan.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/allocation_meter.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

parquet::WriterProperties::Builder Properties() {
  parquet::WriterProperties::Builder properties;
  properties.memory_pool(arrow::system_memory_pool());
  return properties;
}

void Write(const std::string& path, arrow::FieldVector fields,
           arrow::ArrayVector columns, int64_t group_rows,
           parquet::WriterProperties::Builder properties = Properties(),
           bool store_schema = true) {
  const auto file = *arrow::io::FileOutputStream::Open(path);
  parquet::ArrowWriterProperties::Builder arrow_properties;
  if (store_schema) arrow_properties.store_schema();
  const arrow::Status status = parquet::arrow::WriteTable(
      *arrow::Table::Make(arrow::schema(fields), columns),
      arrow::system_memory_pool(), file, group_rows, properties.build(),
      arrow_properties.build());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(file->Close().ok());
}

std::shared_ptr<arrow::Array> Int64s(int64_t count,
                                     const std::function<int64_t(int64_t)>& f) {
  arrow::Int64Builder builder(arrow::system_memory_pool());
  EXPECT_TRUE(builder.Reserve(count).ok());
  for (int64_t i = 0; i < count; ++i) builder.UnsafeAppend(f(i));
  return *builder.Finish();
}

// Token lists: a few words, then padding.
constexpr int64_t kTokens = 1024;
int64_t Token(int64_t row, int64_t i) {
  return i < row % 7 ? row * 31 + i + 1 : 0;
}

absl::StatusOr<std::string> ReadField(RecordReader& reader, int64_t index,
                                      int field) {
  std::string bytes;
  const absl::Status status =
      reader.Read(index, [&](const EncodedSample& sample) {
        bytes.assign(sample.fields[field].begin(), sample.fields[field].end());
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return bytes;
}

class ParquetMemoryTest : public ::testing::Test {
 protected:
  // What the pool has had at a time, in this test and those before it: tests
  // stand in the order of what they may take.
  void ExpectPeakWithin(uint64_t bytes) {
    const auto peak = static_cast<uint64_t>(BoundedPool::Base()->max_memory());
    EXPECT_LE(peak, bytes);
    RecordProperty("peak_bytes", absl::StrCat(peak));
  }
  absl::StatusOr<std::unique_ptr<RecordSource>> Open(ByteBudget& budget) {
    return OpenRecordSource(
        absl::StrCat("parquet:", path_),
        {.cache_budget = &budget,
         .cache_bytes = budget.capacity(),
         .cache_advice = [](uint64_t) { return "raise --memory_budget"; }});
  }
  TempFolder folder_;
  const std::string path_ = folder_ / "d.parquet";
};

// A file of 1 MB whose strings are 5.4 GB one by one.
class DistinctStringsTest : public ParquetMemoryTest {
 protected:
  static constexpr int64_t kRows = 10'000;
  static std::string String(int64_t row) {
    return std::string(540'000, static_cast<char>('a' + row % 10));
  }
  DistinctStringsTest() {
    arrow::StringBuilder strings(arrow::system_memory_pool());
    for (int64_t i = 0; i < 10; ++i) {
      EXPECT_TRUE(strings.Append(String(i)).ok());
    }
    arrow::Int32Builder indices(arrow::system_memory_pool());
    for (int64_t row = 0; row < kRows; ++row) {
      EXPECT_TRUE(indices.Append(row % 10).ok());
    }
    const auto texts = *arrow::DictionaryArray::FromArrays(*indices.Finish(),
                                                           *strings.Finish());
    // As plain strings: the schema says nothing of the dictionary.
    Write(path_,
          {arrow::field("text", texts->type()),
           arrow::field("label", arrow::int64())},
          {texts, Int64s(kRows, [](int64_t i) { return i * 3; })}, kRows,
          *Properties().dictionary_pagesize_limit(64 * kMiB)->compression(
              arrow::Compression::SNAPPY),
          /*store_schema=*/false);
    EXPECT_LT(std::filesystem::file_size(path_), 2 * kMiB);
  }
};

TEST_F(DistinctStringsTest, AColumnThatNobodyUsesTakesNothing) {
  ByteBudget budget(4 * kMiB);
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->info().schema().fields(0).name(), "text");
  EXPECT_TRUE((*source)->CheckFields({false, true}).ok());
  const auto reader = (*source)->NewReader();
  ASSERT_TRUE((*reader)->UseFields({false, true}).ok());
  for (const int64_t row : {0, 17, 9'999}) {
    EXPECT_EQ(*ReadField(**reader, row, 1), Scalar<int64_t>(row * 3));
    EXPECT_EQ(*ReadField(**reader, row, 0), "");
  }
  ExpectPeakWithin(2 * kMiB);

  // Its reader could not be served: refused before the first batch.
  for (const std::vector<bool>& used :
       {std::vector<bool>{true, true}, std::vector<bool>{true, false}}) {
    const absl::Status refused = (*source)->CheckFields(used);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    for (const std::string& part :
         {path_, std::string("row group 0"), std::string("'text'"),
          std::string("4 MiB"), std::string("--memory_budget"),
          std::string("outputs")}) {
      EXPECT_THAT(std::string(refused.message()), HasSubstr(part));
    }
  }
}

TEST_F(DistinctStringsTest, StringsStayADictionary) {
  ByteBudget budget(64 * kMiB);
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const auto reader = (*source)->NewReader();
      for (int64_t i = 0; i < 20; ++i) {
        const int64_t row = (i * 777 + t) % kRows;
        const auto text = ReadField(**reader, row, 0);
        ASSERT_TRUE(text.ok()) << text.status();
        ASSERT_EQ(*text, String(row));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectPeakWithin(64 * kMiB);
}

// 1.5 MB in the footer, 164 MB once decoded. With a page index, and with pages
// whose lists are counted.
class PaddedTokensTest : public ParquetMemoryTest,
                         public ::testing::WithParamInterface<bool> {};

TEST_P(PaddedTokensTest, StayWithinTheCache) {
  constexpr int64_t kRows = 20'000;
  auto values = Int64s(kRows * kTokens, [](int64_t i) {
    return Token(i / kTokens, i % kTokens);
  });
  const auto type = arrow::fixed_size_list(arrow::int64(), kTokens);
  const auto tokens = std::make_shared<arrow::FixedSizeListArray>(
      type, kRows, std::move(values));
  auto properties = Properties();
  if (!GetParam()) properties.disable_write_page_index();
  Write(path_, {arrow::field("tokens", type)}, {tokens}, kRows, properties);
  ASSERT_LT(std::filesystem::file_size(path_), 4 * kMiB);

  ByteBudget budget(32 * kMiB);
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(budget.used(), 32 * kMiB);
  EXPECT_EQ((*source)->unused_bytes(), 32 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto reader = (*source)->NewReader();
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t row = (i * 7919 + t * 4001) % kRows;
        const auto bytes = ReadField(**reader, row, 0);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_EQ(bytes->size(), kTokens * sizeof(int64_t));
        const auto* read = reinterpret_cast<const int64_t*>(bytes->data());
        for (int64_t k = 0; k < kTokens; ++k) {
          ASSERT_EQ(read[k], Token(row, k)) << row << " " << k;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectPeakWithin(32 * kMiB);
  // Rows are kept for later.
  EXPECT_LT((*source)->unused_bytes(), 32 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(PageIndex, PaddedTokensTest, ::testing::Bool());

// What a dataset reports of its files is reserved in the budget: small row
// groups took seven times their footer, which nobody counted.
TEST_F(ParquetMemoryTest, TheFooterTakesWhatIsReported) {
  constexpr int64_t kRows = 2000;
  constexpr int kColumns = 20;
  const auto pairs = arrow::fixed_size_list(arrow::int64(), 2);
  for (const bool lists : {false, true}) {
    for (const bool statistics : {false, true}) {
      arrow::FieldVector fields;
      arrow::ArrayVector columns;
      for (int i = 0; i < kColumns; ++i) {
        auto values =
            Int64s(lists ? 2 * kRows : kRows, [](int64_t row) { return row; });
        if (lists) {
          values = std::make_shared<arrow::FixedSizeListArray>(
              pairs, kRows, std::move(values));
        }
        fields.push_back(arrow::field(absl::StrCat("f", i), values->type()));
        columns.push_back(std::move(values));
      }
      auto properties = Properties();
      if (!statistics) properties.disable_statistics();
      Write(path_, fields, columns, 4, properties);
      const AllocationMeter meter;
      const auto file = ParquetFile::Open(path_);
      const auto taken = static_cast<double>(meter.peak());
      ASSERT_TRUE(file.ok()) << file.status();
      ASSERT_EQ((*file)->row_groups(), kRows / 4);
      const auto reported = static_cast<double>((*file)->metadata_bytes());
      EXPECT_LE(taken, reported) << lists << statistics;
      EXPECT_GE(taken, 0.8 * reported) << lists << statistics;

      // With what decoding each chunk costs.
      const auto source = OpenRecordSource(absl::StrCat("parquet:", path_), {});
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_GT((*source)->metadata_bytes(), (*file)->metadata_bytes());
    }
  }
}

// The schema alone takes many times what it has in the file.
TEST_F(ParquetMemoryTest, ASchemaOfManyColumnsTakesWhatIsReported) {
  for (const auto& [lists, name_bytes] :
       {std::pair(false, 0), {true, 0}, {false, 250}, {true, 250}}) {
    auto column = Int64s(2, [](int64_t i) { return i; });
    if (lists) {
      column = *arrow::FixedSizeListArray::FromArrays(std::move(column), 2);
    }
    arrow::FieldVector fields;
    for (int i = 0; i < 2000; ++i) {
      fields.push_back(arrow::field(
          absl::StrCat("f", i, std::string(name_bytes, '_')), column->type()));
    }
    Write(path_, fields, arrow::ArrayVector(fields.size(), column), 2,
          *Properties().disable_statistics(), /*store_schema=*/false);
    const AllocationMeter meter;
    const auto file = ParquetFile::Open(path_);
    const auto taken = static_cast<double>(meter.peak());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto reported = static_cast<double>((*file)->metadata_bytes());
    EXPECT_LE(taken, reported) << lists << " " << name_bytes;
    EXPECT_GE(taken, 0.8 * reported) << lists << " " << name_bytes;
  }
}

TEST_F(ParquetMemoryTest, AFooterWithoutRoomIsNotParsed) {
  constexpr int64_t kRows = 2000;
  Write(path_, {arrow::field("f", arrow::int64())},
        {Int64s(kRows, [](int64_t row) { return row; })}, 1);
  ByteBudget footers(kMiB);
  OpenSourceOptions options;
  options.metadata_budget = &footers;
  uint64_t needed = 0;
  options.metadata_advice = [&needed](uint64_t bytes, const DatasetInfo*) {
    needed = bytes;
    return "give --more";
  };
  const std::string uri = absl::StrCat("parquet:", path_);
  {
    const AllocationMeter meter;
    const absl::Status refused = OpenRecordSource(uri, options).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("give --more, or"));
    EXPECT_LT(meter.peak(), kMiB);
  }
  EXPECT_GT(needed, kRows * 870);
  EXPECT_EQ(footers.used(), 0u);
  // What it names is enough, and nothing less.
  ByteBudget less(needed - 1), enough(needed);
  options.metadata_budget = &less;
  EXPECT_FALSE(OpenRecordSource(uri, options).ok());
  options.metadata_budget = &enough;
  {
    const auto source = OpenRecordSource(uri, options);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->metadata_bytes(), needed);
    EXPECT_EQ(enough.used(), needed);
  }
  EXPECT_EQ(enough.used(), 0u);
}

// The footer says less than the strings take, and nothing else tells: the pool
// is where it ends.
TEST_F(ParquetMemoryTest, AColumnThatGrowsPastTheCacheIsAnErrorThatNamesIt) {
  arrow::StringBuilder strings(arrow::system_memory_pool());
  for (int64_t row = 0; row < 1000; ++row) {
    ASSERT_TRUE(strings.Append(std::string(200'000, 'a' + row % 5)).ok());
  }
  for (int64_t row = 0; row < 25; ++row) {  // the dictionary is given up
    ASSERT_TRUE(
        strings.Append(std::string(200'000, static_cast<char>('A' + row)))
            .ok());
  }
  Write(path_, {arrow::field("text", arrow::utf8())}, {*strings.Finish()}, 1025,
        *Properties()
             .set_size_statistics_level(parquet::SizeStatisticsLevel::None)
             ->write_batch_size(10));
  ByteBudget budget(32 * kMiB);
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  const absl::Status refused = ReadField(**reader, 3, 0).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  for (const std::string& part :
       {path_, std::string("row group 0"), std::string("'text'"),
        std::string("32 MiB"), std::string("--memory_budget")}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(part));
  }
  ExpectPeakWithin(32 * kMiB);
}

// Columns of every form, cut into slices by a small cache, with pages that can
// be passed over and pages that cannot.
TEST_F(ParquetMemoryTest, SlicesHoldTheRowsOfTheWhole) {
  constexpr int64_t kRows = 1600;
  auto* const pool = arrow::system_memory_pool();
  arrow::BinaryBuilder unique(pool);
  arrow::StringBuilder few(pool);
  arrow::BooleanBuilder flags(pool);
  arrow::Int16Builder narrow(pool);
  auto numbers = std::make_shared<arrow::FloatBuilder>(pool);
  arrow::ListBuilder ragged(pool, numbers);
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_TRUE(
        unique.Append(std::string(row % 50, 'x') + absl::StrCat(row)).ok());
    ASSERT_TRUE((row % 11 == 0 ? few.AppendNull()
                               : few.Append(absl::StrCat("value ", row % 3)))
                    .ok());
    ASSERT_TRUE(flags.Append(row % 3 == 0).ok());
    ASSERT_TRUE(narrow.Append(static_cast<int16_t>(row * 7)).ok());
    ASSERT_TRUE(ragged.Append().ok());
    for (int64_t i = 0; i < row % 5; ++i) {
      ASSERT_TRUE(numbers->Append(static_cast<float>(row + i)).ok());
    }
  }
  const auto pairs = arrow::fixed_size_list(arrow::int32(), 2);
  arrow::Int32Builder halves(pool);
  for (int64_t i = 0; i < 2 * kRows; ++i)
    ASSERT_TRUE(halves.Append(i * 5).ok());
  const auto pair_column = std::make_shared<arrow::FixedSizeListArray>(
      pairs, kRows, *halves.Finish());
  const arrow::ArrayVector columns = {
      *unique.Finish(),
      *few.Finish(),
      *flags.Finish(),
      *narrow.Finish(),
      *ragged.Finish(),
      pair_column,
      Int64s(kRows, [](int64_t i) { return i % 4; })};
  arrow::FieldVector fields;
  for (size_t i = 0; i < columns.size(); ++i) {
    fields.push_back(arrow::field(absl::StrCat("f", i), columns[i]->type()));
  }
  // Rows in the order 0, step, 2 * step, ...; those not read stay empty.
  const auto read = [&](uint64_t cache, int64_t step, int64_t count) {
    ByteBudget budget(cache);
    const auto source = Open(budget);
    EXPECT_TRUE(source.ok()) << source.status();
    const auto reader = (*source)->NewReader();
    std::vector<std::string> rows(kRows);
    for (int64_t i = 0, row = 0; i < count; ++i, row = (row + step) % kRows) {
      const absl::Status status =
          (*reader)->Read(row, [&](const EncodedSample& sample) {
            for (const auto& field : sample.fields) {
              absl::StrAppend(&rows[row], field.size(), ":",
                              std::string(field.begin(), field.end()), ",");
            }
            return absl::OkStatus();
          });
      if (!status.ok()) rows[row] = status.ToString();
    }
    return rows;
  };
  for (const auto version : {parquet::ParquetDataPageVersion::V1,
                             parquet::ParquetDataPageVersion::V2}) {
    for (const bool dictionary : {false, true}) {
      for (const bool index : {false, true}) {
        auto properties = Properties();
        if (!index) properties.disable_write_page_index();
        properties.data_page_version(version)->data_pagesize(500);
        properties.write_batch_size(64);
        if (!dictionary) properties.disable_dictionary();
        Write(path_, fields, columns, 1400, properties);
        const std::vector<std::string> whole = read(64 * kMiB, 1, kRows);
        EXPECT_THAT(whole[0], HasSubstr("null"));
        EXPECT_THAT(whole[1], HasSubstr("value 1"));
        for (const uint64_t cache : {400u << 10, 600u << 10}) {
          // Too long to be printed.
          EXPECT_TRUE(read(cache, 1, kRows) == whole) << cache;
          // Each jump decodes a slice anew: a part of the rows is enough.
          const auto jumps = read(cache, 1237, kRows / 5);
          int64_t same = 0;
          for (int64_t row = 0; row < kRows; ++row) {
            same += !jumps[row].empty() && jumps[row] == whole[row];
          }
          EXPECT_EQ(same, kRows / 5) << cache;
        }
      }
    }
  }
}

// Bytes that this process has read from files.
int64_t BytesRead() {
  const std::string text = ReadFile("/proc/self/io");
  return std::stoll(text.substr(text.find("rchar: ") + 7));
}

// A row of a large row group of images costs its pages, not the row group.
TEST_F(ParquetMemoryTest, PagesBeforeASliceAreNotRead) {
  constexpr int64_t kRows = 500;
  const auto content = [](int64_t row) {
    std::string bytes;
    while (bytes.size() < 20'000) absl::StrAppend(&bytes, row, ".");
    return bytes;
  };
  arrow::BinaryBuilder images(arrow::system_memory_pool());
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_TRUE(images.Append(content(row)).ok());
  }
  Write(path_, {arrow::field("image", arrow::binary())}, {*images.Finish()},
        kRows,
        *Properties()
             .disable_dictionary()
             ->data_pagesize(100'000)
             ->write_batch_size(5));
  ASSERT_GT(std::filesystem::file_size(path_), 9 * kMiB);
  ByteBudget budget(6 * kMiB);
  const auto source = Open(budget);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  const int64_t before = BytesRead();
  EXPECT_EQ(*ReadField(**reader, kRows - 1, 0), content(kRows - 1));
  EXPECT_LT(BytesRead() - before, 4 << 20);
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t row = i * 173 % kRows;
    ASSERT_EQ(*ReadField(**reader, row, 0), content(row)) << row;
  }
}

TEST(SlicePlan, DecompressionCountsOnce) {
  const ChunkCost plain = {.fixed = 1000, .per_row = 100};
  ChunkCost packed = plain;
  packed.codec_kib = 100;
  EXPECT_EQ(
      PlanSlices(64, {packed, packed, plain}, 32 * kMiB).bytes,
      PlanSlices(64, {plain, plain, plain}, 32 * kMiB).bytes + (100 << 10));
  // Slices do not become shorter while there is memory.
  packed.per_row = 1 << 20;
  ChunkCost unpacked = packed;
  unpacked.codec_kib = 0;
  EXPECT_EQ(PlanSlices(64, {packed}, 32 * kMiB).rows,
            PlanSlices(64, {unpacked}, 32 * kMiB).rows);
  EXPECT_EQ(PlanSlices(64, {packed}, 80 << 10).rows, 1);
  EXPECT_GT(PlanSlices(64, {packed}, 80 << 10).bytes, 80u << 10);
}

TEST(SlicePlan, SmallRowGroupsStayWhole) {
  const ChunkCost column = {.fixed = 1000, .per_row = 100};
  const SlicePlan whole = PlanSlices(64, {column}, 32 * kMiB);
  EXPECT_EQ(whole.rows, 64);
  EXPECT_EQ(whole.bytes, 4096 + 1000 + 6400);
}

TEST(SlicePlan, LargeOnesAreCutEvenly) {
  const ChunkCost column = {.fixed = 1 << 20, .per_row = 32 << 10};
  const SlicePlan slice = PlanSlices(20'000, {column}, 32 * kMiB);
  EXPECT_LE(slice.bytes, 16 * kMiB);
  EXPECT_GT(slice.bytes, 8 * kMiB);
  // Nearly all slices are of one size.
  EXPECT_LT(slice.rows - 20'000 % slice.rows, 20'000 / slice.rows + 2);
  // With more memory they are larger.
  EXPECT_GT(PlanSlices(20'000, {column}, 1024 * kMiB).rows, 3 * slice.rows);
}

TEST(SlicePlan, ARowThatDoesNotFitIsSeen) {
  const ChunkCost column = {.fixed = 0, .per_row = 5 << 20};
  EXPECT_GT(PlanSlices(10, {column}, 4 * kMiB).bytes, 4 * kMiB);
  EXPECT_EQ(PlanSlices(10, {column}, 4 * kMiB).rows, 1);
}

TEST(BoundedPool, RefusesWhatWasNotReserved) {
  uint64_t more = 0;
  BoundedPool bounded(1000, [&](uint64_t bytes) {
    more = bytes;
    return false;
  });
  arrow::MemoryPool& pool = bounded;
  uint8_t* a = nullptr;
  uint8_t* b = nullptr;
  ASSERT_TRUE(pool.Allocate(600, &a).ok());
  EXPECT_TRUE(pool.Allocate(500, &b).IsOutOfMemory());
  EXPECT_EQ(more, 100);
  EXPECT_EQ(bounded.refused_bytes(), 1100);
  // Old and new are there at the same time.
  EXPECT_TRUE(pool.Reallocate(600, 700, &a).IsOutOfMemory());
  ASSERT_TRUE(pool.Reallocate(600, 300, &a).ok());
  EXPECT_EQ(pool.bytes_allocated(), 300);
  EXPECT_EQ(pool.max_memory(), 900);
  bounded.Close();
  EXPECT_TRUE(pool.Allocate(1, &b).IsOutOfMemory());
  pool.Free(a, 300);
  EXPECT_EQ(pool.bytes_allocated(), 0);
}

TEST(BoundedPool, AsksForMoreFirst) {
  std::vector<uint64_t> asked;
  BoundedPool bounded(1000, [&](uint64_t bytes) {
    asked.push_back(bytes);
    return bytes < kMiB;
  });
  arrow::MemoryPool& pool = bounded;
  uint8_t* a = nullptr;
  ASSERT_TRUE(pool.Allocate(5000, &a).ok());
  EXPECT_EQ(asked, (std::vector<uint64_t>{kMiB, 4000}));
  EXPECT_EQ(bounded.limit(), 5000);
  pool.Free(a, 5000);
}

}  // namespace
}  // namespace millrace::storage
