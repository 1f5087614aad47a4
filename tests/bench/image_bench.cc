// What a photograph costs: decoding whole, decoding the region of a crop, and
// the whole image stage of imagenet_train, for one and two threads.
//
//   PHOTOS=/folder/with/jpegs image_bench
//
// Reads all files first. Each iteration takes the next photograph.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "proto/names.h"
#include "server/augment/geometry_chain.h"
#include "server/augment/resize.h"
#include "server/decode/image_decoder.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace {
namespace {

const std::vector<std::vector<uint8_t>>& Photos() {
  static const auto* photos = [] {
    auto* all = new std::vector<std::vector<uint8_t>>;
    const char* folder = std::getenv("PHOTOS");
    if (folder == nullptr) return all;
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      std::ifstream in(path, std::ios::binary);
      all->emplace_back(std::istreambuf_iterator<char>(in),
                        std::istreambuf_iterator<char>());
    }
    return all;
  }();
  return *photos;
}

// Each thread walks the photographs from a place of its own.
class Walk {
 public:
  explicit Walk(benchmark::State& state)
      : next_(state.thread_index() * Photos().size() / state.threads()) {
    if (Photos().empty())
      state.SkipWithError("set PHOTOS to a folder of JPEGs");
  }
  const std::vector<uint8_t>& Next() {
    return Photos()[next_++ % Photos().size()];
  }
  uint64_t key() const { return next_ * 0x9E3779B97F4A7C15ull; }

 private:
  size_t next_;
};

void DecodeWhole(benchmark::State& state) {
  Walk walk(state);
  if (Photos().empty()) return;
  decode::ImageDecoder decoder;
  for (auto _ : state) {
    auto header = decoder.Open(walk.Next(), false);
    auto image = decoder.Decode({1, 0, 0, header->width, header->height, 3});
    if (!image.ok()) state.SkipWithError(image.status().ToString().c_str());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DecodeWhole)->Threads(1)->Threads(2)->UseRealTime();

void ImageStageRun(benchmark::State& state, absl::Span<const Transform> spec) {
  Walk walk(state);
  if (Photos().empty()) return;
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  std::vector<pipeline::PlacedTransform> placed;
  for (const Transform& t : spec) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  auto stage = pipeline::ImageStage::Create(field, placed);
  if (!stage.ok()) {
    state.SkipWithError(stage.status().ToString().c_str());
    return;
  }
  auto scratch = (*stage)->NewScratch();
  size_t bytes = 1;
  for (int64_t n : (*stage)->output_shape()) bytes *= n;
  // A batch, as the engine fills it: the next slot is not in the cache.
  constexpr size_t kBatch = 64;
  std::vector<uint8_t> batch(bytes * kBatch);
  size_t row = 0;
  double decode = 0;
  double augment = 0;
  for (auto _ : state) {
    const std::vector<uint8_t>& photo = walk.Next();
    absl::Status status = (*stage)->Run(
        photo, walk.key(), *scratch,
        absl::MakeSpan(batch).subspan(bytes * (row++ % kBatch), bytes));
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
    const auto times = scratch->TakeTimes();
    decode += times.decode_seconds;
    augment += times.augment_seconds;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["decode_us"] = benchmark::Counter(
      decode * 1e6 / state.iterations(), benchmark::Counter::kAvgThreads);
  state.counters["augment_us"] = benchmark::Counter(
      augment * 1e6 / state.iterations(), benchmark::Counter::kAvgThreads);
}

void ImagenetTrain(benchmark::State& state, DecodeImage::Mode mode,
                   bool antialias) {
  std::vector<Transform> spec(3);
  spec[0].mutable_decode_image()->set_mode(mode);
  spec[1].mutable_random_resized_crop()->set_height(224);
  spec[1].mutable_random_resized_crop()->set_width(224);
  spec[1].mutable_random_resized_crop()->set_no_antialias(!antialias);
  spec[2].mutable_horizontal_flip();
  ImageStageRun(state, spec);
}
BENCHMARK_CAPTURE(ImagenetTrain, scaled, DecodeImage::SCALED, true)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();
BENCHMARK_CAPTURE(ImagenetTrain, no_antialias, DecodeImage::SCALED, false)
    ->Threads(1)
    ->UseRealTime();
BENCHMARK_CAPTURE(ImagenetTrain, exact, DecodeImage::EXACT, true)
    ->Threads(1)
    ->UseRealTime();

void ImagenetEval(benchmark::State& state) {
  std::vector<Transform> spec(3);
  spec[0].mutable_decode_image();
  spec[1].mutable_resize()->set_short_side(256);
  spec[2].mutable_center_crop()->set_height(224);
  spec[2].mutable_center_crop()->set_width(224);
  ImageStageRun(state, spec);
}
BENCHMARK(ImagenetEval)->Threads(1)->UseRealTime();

// The resize alone, 300 x 280 pixels to 224 x 224.
void ResizeOnly(benchmark::State& state) {
  const int channels = 3;
  std::vector<uint8_t> source(300 * 280 * channels + augment::kResizeReadSlack,
                              77);
  std::vector<uint8_t> out(224 * 224 * channels);
  augment::ResizeScratch scratch;
  augment::AxisFilter x;
  augment::AxisFilter y;
  for (auto _ : state) {
    x.Build({0, 300, 0, 300, 224, 0, 224, true});
    y.Build({0, 280, 0, 280, 224, 0, 224, true});
    augment::ResizeJob job;
    job.source = source.data();
    job.source_stride = 300 * channels;
    job.x = &x;
    job.y = &y;
    job.channels = channels;
    job.out = out.data();
    job.out_stride = 224 * channels;
    benchmark::DoNotOptimize(augment::ResizePixels(job, scratch));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ResizeOnly);

void BuildFilter(benchmark::State& state) {
  augment::AxisFilter x;
  for (auto _ : state) x.Build({0, 300, 0, 300, 224, 0, 224, true});
}
BENCHMARK(BuildFilter);

}  // namespace
}  // namespace millrace
