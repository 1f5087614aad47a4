// Records in files, by one thread, from the page cache: how fast indexes are
// made (headers only, and with the content), and how fast samples are read in
// permuted order, beside the same samples in LMDB. Written into a temporary
// folder first.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/logging.h"
#include "server/storage/index_dataset.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace {
namespace {

// Of 100 kB, as photographs of ImageNet.
constexpr int64_t kPhotographs = 3000;
constexpr size_t kPhotographBytes = 100'000;

// Written once a process, removed at its end.
class Data {
 public:
  Data() {
    storage::Samples samples;
    std::string shard;
    std::vector<std::string> examples;
    for (int64_t i = 0; i < kPhotographs; ++i) {
      std::string image(kPhotographBytes, static_cast<char>(i));
      image.replace(0, storage::kJpegStart.size(),
                    std::string(storage::kJpegStart));
      const std::string key = absl::StrFormat("%06d", i);
      absl::StrAppend(
          &shard, storage::TarMemberBytes(key + ".cls", absl::StrCat(i % 3)),
          storage::TarMemberBytes(key + ".jpg", image));
      examples.push_back(storage::ExampleBytes(
          {{"image/encoded", storage::Strings({image})},
           {"image/class/label", storage::Ints({1 + i % 3})}}));
      samples.push_back({std::move(image), storage::Scalar<int64_t>(i % 3)});
      if (i % 1000 < 999) continue;
      storage::WriteFile(folder_ / absl::StrCat(i / 1000, ".tfrecord"),
                         storage::RecordFile(examples));
      examples.clear();
      storage::WriteFile(folder_ / absl::StrCat(i / 1000, ".tar"),
                         shard + storage::TarEnd());
      shard.clear();
    }
    const auto packed =
        storage::Pack(lmdb(), storage::ImageDataset(kPhotographs), samples);
    MR_CHECK(packed.ok()) << packed.status().message();
  }
  std::string tar() const { return absl::StrCat("tar:", folder_ / "*.tar"); }
  std::string tfrecord() const {
    return absl::StrCat("tfrecord:", folder_ / "*.tfrecord");
  }
  std::string lmdb() const { return absl::StrCat("lmdb:", folder_ / "d.lmdb"); }
  storage::OpenSourceOptions options() const {
    storage::OpenSourceOptions options;
    options.cache_dir = folder_ / "cache";
    return options;
  }

 private:
  const storage::TempFolder folder_;
};

const Data& TheData() {
  static const Data data;
  return data;
}

// A tar sample has two members, a TFRecord sample one record.
void Index(benchmark::State& state, const std::string& uri, bool headers_only,
           int headers) {
  for (auto _ : state) {
    const auto indexed = storage::IndexDataset(
        uri, TheData().options(),
        {.threads = 1, .headers_only = headers_only, .progress = {}});
    MR_CHECK(indexed.ok()) << indexed.status().message();
  }
  state.SetItemsProcessed(state.iterations() * kPhotographs * headers);
  state.SetBytesProcessed(state.iterations() * kPhotographs *
                          static_cast<int64_t>(kPhotographBytes));
}

void ReadAtRandom(benchmark::State& state, const std::string& uri) {
  const auto source = storage::OpenRecordSource(uri, TheData().options());
  MR_CHECK(source.ok()) << source.status().message();
  const auto reader = (*source)->NewReader();
  int64_t index = 0;
  uint64_t sum = 0;
  for (auto _ : state) {
    const absl::Status status =
        (*reader)->Read(index, [&](const storage::EncodedSample& sample) {
          // A byte of each cache line, as a decoder touches.
          for (const auto& field : sample.fields) {
            for (size_t i = 0; i < field.size(); i += 64) sum += field[i];
          }
          return absl::OkStatus();
        });
    MR_CHECK(status.ok()) << status.message();
    index = (index + 1117) % kPhotographs;
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}

void BM_IndexTarHeaders(benchmark::State& state) {
  Index(state, TheData().tar(), true, 2);
}
void BM_IndexTarContent(benchmark::State& state) {
  Index(state, TheData().tar(), false, 2);
}
void BM_IndexTfrecordHeaders(benchmark::State& state) {
  Index(state, TheData().tfrecord(), true, 1);
}
void BM_IndexTfrecordContent(benchmark::State& state) {
  Index(state, TheData().tfrecord(), false, 1);
}
void BM_ReadTar(benchmark::State& state) {
  ReadAtRandom(state, TheData().tar());
}
void BM_ReadTfrecord(benchmark::State& state) {
  ReadAtRandom(state, TheData().tfrecord());
}
void BM_ReadLmdb(benchmark::State& state) {
  ReadAtRandom(state, TheData().lmdb());
}
BENCHMARK(BM_IndexTarHeaders)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_IndexTarContent)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_IndexTfrecordHeaders)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_IndexTfrecordContent)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReadTar)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ReadTfrecord)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ReadLmdb)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
