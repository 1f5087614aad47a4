// How fast samples come out of storage, by one thread, in permuted and in
// logical order: small samples (28x28 raw pixels as MNIST, PNGs of 500 bytes in
// Parquet) and encoded images of 100 kB.
// Data is written into a temporary folder first and stays in the page cache.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/storage/open.h"
#include "tests/server/storage/memory/memory_source.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace {
namespace {

enum Shape { kSmall, kImages };

constexpr int64_t kSamples[] = {60000, 1000};

DatasetInfo Description(const std::string& scheme, Shape shape) {
  DatasetInfo info = storage::ImageDataset(kSamples[shape]);
  if (shape == kSmall && scheme != "parquet") {
    Field* image = info.mutable_schema()->mutable_fields(0);
    image->set_kind(FIELD_KIND_TENSOR);
    image->set_dtype(DTYPE_UINT8);
    for (int64_t extent : {28, 28, 1}) image->add_shape(extent);
  }
  return info;
}

storage::Samples Content(const std::string& scheme, Shape shape) {
  storage::Samples samples;
  for (int64_t i = 0; i < kSamples[shape]; ++i) {
    const size_t size = shape == kImages      ? 100'000
                        : scheme == "parquet" ? 500
                                              : 784;
    samples.push_back({std::string(size, static_cast<char>(i)),
                       storage::Scalar<int64_t>(i % 3)});
  }
  return samples;
}

// Written once a process, removed at its end.
std::string DatasetPath(const std::string& scheme, Shape shape) {
  static const storage::TempFolder folder;
  const std::string path = folder / absl::StrCat(scheme, shape);
  const std::string uri = absl::StrCat(scheme, ":", path);
  if (!std::filesystem::exists(path)) {
    const auto packed =
        storage::Pack(uri, Description(scheme, shape), Content(scheme, shape));
    MR_CHECK(packed.ok()) << packed.status().message();
  }
  return uri;
}

// Reads one sample after the other; `step` is 1 for logical order, else a
// number without common factors with the sample count.
void ReadSamples(benchmark::State& state, const storage::RecordSource& source,
                 int64_t step) {
  const auto reader = source.NewReader();
  MR_CHECK(reader.ok()) << reader.status().message();
  const int64_t samples = source.info().samples();
  int64_t index = 0;
  int64_t bytes = 0;
  uint64_t sum = 0;
  for (auto _ : state) {
    const absl::Status status =
        (*reader)->Read(index, [&](const storage::EncodedSample& sample) {
          // A byte of each cache line, as whoever copies the sample touches.
          for (const auto& field : sample.fields) {
            for (size_t i = 0; i < field.size(); i += 64) sum += field[i];
            bytes += field.size();
          }
          return absl::OkStatus();
        });
    MR_CHECK(status.ok()) << status.message();
    index += step;
    if (index >= samples) index -= samples;
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(bytes);
}

constexpr int64_t kPermuted[] = {37619, 619};

void BM_Lmdb(benchmark::State& state) {
  const Shape shape = static_cast<Shape>(state.range(0));
  const auto source = storage::OpenRecordSource(DatasetPath("lmdb", shape), {});
  MR_CHECK(source.ok()) << source.status().message();
  ReadSamples(state, **source, state.range(1) ? kPermuted[shape] : 1);
}
BENCHMARK(BM_Lmdb)
    ->ArgNames({"images", "permuted"})
    ->ArgsProduct({{kSmall, kImages}, {0, 1}});

// With a cache for everything, and with none.
void BM_Parquet(benchmark::State& state) {
  const Shape shape = static_cast<Shape>(state.range(0));
  ByteBudget budget(uint64_t{1} << 30);
  const auto source = storage::OpenRecordSource(
      DatasetPath("parquet", shape),
      {.cache_budget = state.range(2) ? &budget : nullptr,
       .cache_bytes = uint64_t{1} << 30});
  MR_CHECK(source.ok()) << source.status().message();
  if (state.range(2))
    MR_CHECK(storage::ReadAll(**source).ok());  // fills the cache
  ReadSamples(state, **source, state.range(1) ? kPermuted[shape] : 1);
}
BENCHMARK(BM_Parquet)
    ->ArgNames({"images", "permuted", "cached"})
    ->ArgsProduct({{kSmall, kImages}, {0, 1}, {0, 1}});

void BM_Memory(benchmark::State& state) {
  const Shape shape = static_cast<Shape>(state.range(0));
  const auto source = storage::NewMemorySource(Description("memory", shape),
                                               Content("memory", shape));
  ReadSamples(state, *source, state.range(1) ? kPermuted[shape] : 1);
}
BENCHMARK(BM_Memory)
    ->ArgNames({"images", "permuted"})
    ->ArgsProduct({{kSmall, kImages}, {0, 1}});

}  // namespace
}  // namespace millrace
