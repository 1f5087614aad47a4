// Samples/s of padded token lists in one row group that the cache does not
// hold, by one thread: in order and permuted, with and without a page index.
// Data is written into a temporary folder first and stays in the page cache.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <benchmark/benchmark.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/logging.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

constexpr int64_t kRows = 20'000;
constexpr int64_t kTokens = 1024;
constexpr uint64_t kCacheBytes = 64 << 20;
constexpr int64_t kPermuted = 7919;

void Write(const std::string& path, bool index) {
  arrow::Int64Builder tokens;
  MR_CHECK(tokens.Reserve(kRows * kTokens).ok());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kTokens; ++i) {
      tokens.UnsafeAppend(i < row * 31 % 200 ? (row * 31 + i * 7) % 5000 : 0);
    }
  }
  const std::shared_ptr<arrow::Array> lists =
      *arrow::FixedSizeListArray::FromArrays(*tokens.Finish(), kTokens);
  parquet::WriterProperties::Builder properties;
  properties.compression(arrow::Compression::SNAPPY);
  if (!index) properties.disable_write_page_index();
  const auto file = *arrow::io::FileOutputStream::Open(path);
  MR_CHECK(
      parquet::arrow::WriteTable(
          *arrow::Table::Make(
              arrow::schema({arrow::field("tokens", lists->type())}), {lists}),
          arrow::default_memory_pool(), file, kRows, properties.build(),
          parquet::ArrowWriterProperties::Builder().store_schema()->build())
          .ok());
  MR_CHECK(file->Close().ok());
}

void BM_PaddedTokens(benchmark::State& state) {
  const TempFolder folder;
  const std::string path = folder / "d.parquet";
  Write(path, state.range(0));
  ByteBudget budget(kCacheBytes);
  const auto source =
      OpenRecordSource(absl::StrCat("parquet:", path),
                       {.cache_budget = &budget, .cache_bytes = kCacheBytes});
  MR_CHECK(source.ok()) << source.status().message();
  const auto reader = (*source)->NewReader();
  const int64_t step = state.range(1) ? kPermuted : 1;
  // The cache is full when the measurement begins.
  int64_t row = 0;
  uint64_t sum = 0;
  const auto read = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i, row = (row + step) % kRows) {
      MR_CHECK((*reader)
                   ->Read(row,
                          [&](const EncodedSample& sample) {
                            for (size_t k = 0; k < sample.fields[0].size();
                                 k += 64) {
                              sum += sample.fields[0][k];
                            }
                            return absl::OkStatus();
                          })
                   .ok());
    }
  };
  const int64_t rows = state.range(2);
  read(rows);
  for (auto _ : state) read(rows);
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_PaddedTokens)
    ->ArgNames({"index", "permuted", "rows"})
    ->Args({0, 1, 32})
    ->Args({1, 1, 32})
    ->Args({0, 0, 4000})
    ->Args({1, 0, 4000})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace millrace::storage
