// Where the time of a sample goes, and what each transform costs:
//
//   stage_bench --dataset=lmdb:PHOTOGRAPHS [--seconds=0.5] [--rounds=3]
//               [--only=stages|pipelines|transforms] [--filter=WORD]
//
// stages: of RandomResizedCrop(224) and flip on encoded photographs, on one
//   thread, microseconds a photograph; and the floor, what decoding nothing but
//   the Huffman codes of the crops would allow.
// pipelines: images/s of whole pipelines on the photographs, 1 and 2 threads.
// transforms: each by itself on raw 256 x 256 pixels cut from the photographs.
//   The engine without any transform (a copy) is measured beside it, round by
//   round, and taken off.
//
// Medians over the rounds. Prints tables in Markdown.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"
#include "server/augment/geometry.h"
#include "server/augment/random.h"
#include "server/pipeline/image_stage.h"
#include "server/pipeline/segment_painter.h"
#include "server/storage/memory/memory_source.h"
#include "server/storage/open.h"
#include "tests/bench/entropy_floor.h"
#include "tests/bench/spec_runner.h"

ABSL_FLAG(std::string, dataset, "", "packed photographs, lmdb:PATH");
ABSL_FLAG(double, seconds, 0.5, "how long a figure is measured in each round");
ABSL_FLAG(int, rounds, 3, "rounds");
ABSL_FLAG(std::string, only, "", "stages, pipelines or transforms");
ABSL_FLAG(std::string, filter, "", "rows whose name contains this word");

namespace millrace {
namespace {

// --- What is measured: a line each
// --------------------------------------------

struct NamedSpec {
  const char* name;
  const char* transforms;
};

// On encoded photographs. "preset NAME" stands for a preset.
constexpr NamedSpec kPipelines[] = {
    {"RandomResizedCrop(224), flip",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 224 width: 224 } }"
     "transforms { horizontal_flip {} }"},
    {"the same, decode EXACT",
     "transforms { decode_image { mode: EXACT } }"
     "transforms { random_resized_crop { height: 224 width: 224 } }"
     "transforms { horizontal_flip {} }"},
    {"the same, not antialiased",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 224 width: 224 "
     "no_antialias: true } }"
     "transforms { horizontal_flip {} }"},
    {"the same, 112 x 112",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 112 width: 112 } }"
     "transforms { horizontal_flip {} }"},
    {"preset imagenet_train", "preset: 'imagenet_train'"},
    {"preset imagenet_eval", "preset: 'imagenet_eval'"},
    {"preset article_albumentations", "preset: 'article_albumentations'"},
    {"the article's, normalised on the server",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 224 width: 224 } }"
     "transforms { horizontal_flip {} }"
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
     "contrast_min: 0.8 contrast_max: 1.2 saturation_min: 0.8 "
     "saturation_max: 1.2 hue_min: -0.1 hue_max: 0.1 } }"
     "transforms { normalize { mean: [0.485, 0.456, 0.406] "
     "stddev: [0.229, 0.224, 0.225] placement: PLACEMENT_SERVER } }"},
    {"RandomResizedCrop(176), flip, TrivialAugmentWide, RandomErasing 0.1",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 176 width: 176 } }"
     "transforms { horizontal_flip {} }"
     "transforms { trivial_augment_wide {} }"
     "transforms { random_erasing { p: 0.1 } }"},
    {"whole photograph to 224 x 224",
     "transforms { decode_image {} }"
     "transforms { resize { height: 224 width: 224 } }"},
};

// On raw uint8 [256, 256, 3]. Every random one is always applied.
constexpr NamedSpec kTransforms[] = {
    {"Resize(224)", "transforms { resize { height: 224 width: 224 } }"},
    {"Resize(224), not antialiased",
     "transforms { resize { height: 224 width: 224 no_antialias: true } }"},
    {"Resize(224), nearest",
     "transforms { resize { height: 224 width: 224 "
     "interpolation: INTERPOLATION_NEAREST } }"},
    {"Resize(64)", "transforms { resize { height: 64 width: 64 } }"},
    {"RandomResizedCrop(224)",
     "transforms { random_resized_crop { height: 224 width: 224 } }"},
    {"CenterCrop(224)",
     "transforms { center_crop { height: 224 width: 224 } }"},
    {"RandomCrop(256, padding 32)",
     "transforms { random_crop { height: 256 width: 256 padding: 32 } }"},
    {"Pad(16), reflected",
     "transforms { pad { padding: 16 padding_mode: PADDING_REFLECT } }"},
    {"HorizontalFlip", "transforms { horizontal_flip { p: 1 } }"},
    {"VerticalFlip", "transforms { vertical_flip { p: 1 } }"},
    {"ColorJitter(0.2, 0.2, 0.2, 0.1)",
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
     "contrast_min: 0.8 contrast_max: 1.2 saturation_min: 0.8 "
     "saturation_max: 1.2 hue_min: -0.1 hue_max: 0.1 } }"},
    {"ColorJitter, brightness alone",
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 } }"},
    {"ColorJitter, contrast alone",
     "transforms { color_jitter { contrast_min: 0.8 contrast_max: 1.2 } }"},
    {"ColorJitter, saturation alone",
     "transforms { color_jitter { saturation_min: 0.8 saturation_max: 1.2 } }"},
    {"ColorJitter, hue alone",
     "transforms { color_jitter { hue_min: -0.1 hue_max: 0.1 } }"},
    {"Grayscale", "transforms { grayscale { p: 1 } }"},
    {"GaussianBlur(5)", "transforms { gaussian_blur { kernel_size: 5 } }"},
    {"GaussianBlur(23)", "transforms { gaussian_blur { kernel_size: 23 } }"},
    {"RandomRotation(15), nearest",
     "transforms { random_rotation { degrees_min: -15 degrees_max: 15 "
     "interpolation: INTERPOLATION_NEAREST } }"},
    {"RandomRotation(15), bilinear",
     "transforms { random_rotation { degrees_min: -15 degrees_max: 15 } }"},
    {"RandomAffine(15, 0.1, 0.8-1.2, 10), bilinear",
     "transforms { random_affine { degrees_min: -15 degrees_max: 15 "
     "translate_x: 0.1 translate_y: 0.1 scale_min: 0.8 scale_max: 1.2 "
     "shear_x_min: -10 shear_x_max: 10 } }"},
    {"RandomErasing", "transforms { random_erasing { p: 1 } }"},
    {"RandomErasing, random pixels",
     "transforms { random_erasing { p: 1 random_value: true } }"},
    {"TrivialAugmentWide", "transforms { trivial_augment_wide {} }"},
    {"RandAugment(2, 9)", "transforms { rand_augment {} }"},
    {"MixUp", "transforms { mix_up {} }"},
    {"CutMix", "transforms { cut_mix {} }"},
    {"Normalize on the server",
     "transforms { normalize { mean: [0.485, 0.456, 0.406] "
     "stddev: [0.229, 0.224, 0.225] placement: PLACEMENT_SERVER } }"},
    {"ToDtype(float32, scale) on the server",
     "transforms { to_dtype { dtype: DTYPE_FLOAT32 scale: true "
     "placement: PLACEMENT_SERVER } }"},
    {"ToDtype(float16, scale) on the server",
     "transforms { to_dtype { dtype: DTYPE_FLOAT16 scale: true "
     "placement: PLACEMENT_SERVER } }"},
    {"layout NCHW",
     "outputs { field: 'image' layout: NCHW } outputs { field: 'label' }"},
};

// --- Helpers
// --------------------------------------------------------------------

using Clock = std::chrono::steady_clock;
using Samples = std::vector<std::vector<std::string>>;  // image, label

double Seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  if (n == 0) return 0;
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

bool Wanted(absl::string_view section, absl::string_view name) {
  const std::string only = absl::GetFlag(FLAGS_only);
  return (only.empty() || only == section) &&
         absl::StrContains(name, absl::GetFlag(FLAGS_filter));
}

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

uint64_t KeyOf(uint64_t visit) { return visit * 0x9E3779B97F4A7C15ull; }

absl::StatusOr<PipelineSpec> SpecOf(absl::string_view text) {
  return ParseSpecText(text, "bench");
}

// Seconds a call of `call(i)` takes, i counting up over all rounds.
double TimeOf(const std::function<void(uint64_t)>& call, uint64_t& next) {
  const double seconds = absl::GetFlag(FLAGS_seconds);
  const Clock::time_point start = Clock::now();
  const uint64_t first = next;
  double elapsed = 0;
  do {
    for (int i = 0; i < 16; ++i) call(next++);
    elapsed = Seconds(Clock::now() - start);
  } while (elapsed < seconds);
  return elapsed / static_cast<double>(next - first);
}

absl::StatusOr<Samples> ReadAll(const RecordSource& source) {
  MR_ASSIGN_OR_RETURN(auto reader, source.NewReader());
  Samples samples;
  for (int64_t i = 0; i < source.info().samples(); ++i) {
    MR_RETURN_IF_ERROR(reader->Read(i, [&](const EncodedSample& sample) {
      auto& fields = samples.emplace_back();
      for (const auto& field : sample.fields) {
        fields.emplace_back(field.begin(), field.end());
      }
      return absl::OkStatus();
    }));
  }
  return samples;
}

// Seconds a sample of a spec takes.
absl::StatusOr<double> SecondsPerSample(SpecRunner& runner) {
  MR_ASSIGN_OR_RETURN(
      const SpecRunner::Rate rate,
      runner.Measure(absl::Seconds(absl::GetFlag(FLAGS_seconds))));
  return rate.seconds / static_cast<double>(rate.samples);
}

// --- stages
// ---------------------------------------------------------------------

// The crop of a photograph as RandomResizedCrop(224) at place 1 and a flip draw
// it, as one segment.
Segment CropOf(Size image, uint64_t key) {
  CounterRandom random(key, 1);
  Segment s;
  s.box = RandomCropRect(image, {}, random);
  s.resize = true;
  s.resized = {224, 224};
  s.window = {0, 0, 224, 224};
  s.canvas = {224, 224};
  s.flip = key >> 63 != 0;
  return s;
}

// What SegmentPainter asks the decoder for.
DecodeRegion RegionOf(const Segment& s, int divisor) {
  DecodeRegion r;
  r.divisor = divisor;
  r.left = s.box.left / divisor;
  r.top = s.box.top / divisor;
  r.width = (s.box.left + s.box.width + divisor - 1) / divisor - r.left;
  r.height = (s.box.top + s.box.height + divisor - 1) / divisor - r.top;
  return r;
}

// One thread's way through the photographs.
class Walker {
 public:
  explicit Walker(const Samples& samples) : samples_(samples) {
    for (const auto& sample : samples) {
      const auto header = painter_.decoder().Open(Bytes(sample[0]), false);
      MR_CHECK(header.ok()) << header.status();
      headers_.push_back(*header);
    }
  }

  void Open(uint64_t i) {
    MR_CHECK(painter_.decoder().Open(Photo(i), false).ok());
  }
  // False: it has no floor.
  bool Floor(uint64_t i) {
    return floor_.Run(Photo(i), RegionOf(Crop(i), Divisor(i)));
  }
  Pixels Decode(uint64_t i) {
    const auto opened = painter_.decoder().Open(Photo(i), false);
    MR_CHECK(opened.ok()) << opened.status();
    Pixels pixels;
    const absl::Status status =
        painter_.Decode(Crop(i), SizeOf(i), Divisor(i), 3, &pixels);
    MR_CHECK(status.ok()) << status;
    return pixels;
  }
  void DecodeAndDraw(uint64_t i) {
    const Pixels pixels = Decode(i);
    // The next slot of a batch is not in the cache.
    uint8_t* slot = &batch_[(i % 64) * 224 * 224 * 3];
    MR_CHECK(painter_.Draw(Crop(i), pixels, 3, slot, 224 * 3).ok());
  }

 private:
  absl::Span<const uint8_t> Photo(uint64_t i) const {
    return Bytes(samples_[i % samples_.size()][0]);
  }
  Size SizeOf(uint64_t i) const {
    const ImageHeader& header = headers_[i % headers_.size()];
    return {header.width, header.height};
  }
  Segment Crop(uint64_t i) const { return CropOf(SizeOf(i), KeyOf(i)); }
  int Divisor(uint64_t i) const {
    return ChooseDivisor(Crop(i), headers_[i % headers_.size()].max_divisor);
  }

  const Samples& samples_;
  std::vector<ImageHeader> headers_;
  SegmentPainter painter_;
  EntropyFloor floor_;
  std::vector<uint8_t> batch_ = std::vector<uint8_t>(64 * 224 * 224 * 3);
};

// Images/s of the floor on `threads` threads.
double FloorRate(const Samples& samples, int threads) {
  std::vector<double> rates(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      Walker walker(samples);
      uint64_t next = 131 * t;
      rates[t] = 1 / TimeOf([&](uint64_t i) { walker.Floor(i); }, next);
    });
  }
  double sum = 0;
  for (int t = 0; t < threads; ++t) {
    pool[t].join();
    sum += rates[t];
  }
  return sum;
}

absl::Status Stages(std::shared_ptr<const RecordSource> source,
                    const Samples& photographs) {
  // Those without a floor (progressive) would spoil the differences.
  Samples samples;
  {
    Walker all(photographs);
    for (size_t i = 0; i < photographs.size(); ++i) {
      if (all.Floor(i)) samples.push_back(photographs[i]);
    }
  }
  if (samples.empty()) return absl::NotFoundError("no sequential JPEG");
  Walker walker(samples);
  MR_ASSIGN_OR_RETURN(const auto reader, source->NewReader());
  MR_ASSIGN_OR_RETURN(const PipelineSpec spec,
                      SpecOf(kPipelines[0].transforms));
  // In memory, so that reading is not among it, and the same photographs.
  std::vector<std::unique_ptr<SpecRunner>> runners;
  const auto memory = NewMemorySource(source->info(), samples);
  for (uint32_t threads : {1, 2}) {
    SpecRunner::Options options;
    options.threads = threads;
    MR_ASSIGN_OR_RETURN(runners.emplace_back(),
                        SpecRunner::Create(memory, spec, options));
  }
  std::vector<double> read, header, entropy, decode, draw, whole, two;
  std::vector<double> floor1, floor2;
  uint64_t next = 0, sum = 0;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    // The same crops for each.
    uint64_t i0 = next, i1 = next, i2 = next, i3 = next, i4 = next;
    read.push_back(TimeOf(
        [&](uint64_t i) {
          const auto status = reader->Read(
              i * 619 % source->info().samples(), [&](const EncodedSample& s) {
                const auto bytes = s.fields[0];
                for (size_t b = 0; b < bytes.size(); b += 64) sum += bytes[b];
                return absl::OkStatus();
              });
          MR_CHECK(status.ok()) << status;
        },
        i0));
    header.push_back(TimeOf([&](uint64_t i) { walker.Open(i); }, i1));
    entropy.push_back(TimeOf([&](uint64_t i) { walker.Floor(i); }, i2));
    decode.push_back(TimeOf([&](uint64_t i) { walker.Decode(i); }, i3));
    draw.push_back(TimeOf([&](uint64_t i) { walker.DecodeAndDraw(i); }, i4));
    MR_ASSIGN_OR_RETURN(const double one, SecondsPerSample(*runners[0]));
    MR_ASSIGN_OR_RETURN(const double both, SecondsPerSample(*runners[1]));
    whole.push_back(one);
    two.push_back(both);
    floor1.push_back(FloorRate(samples, 1));
    floor2.push_back(FloorRate(samples, 2));
    next = i4;
  }
  MR_CHECK(sum != 1) << "so that reading is not optimised away";
  const auto us = [](const std::vector<double>& a) { return 1e6 * Median(a); };
  std::printf("| stage, one thread | us a photograph |\n|---|---|\n");
  std::printf("| reading from LMDB, every cache line touched | %.1f |\n",
              us(read));
  std::printf("| header | %.1f |\n", us(header));
  std::printf(
      "| Huffman codes of the crop's rows (with a header: %.1f) | %.1f |\n",
      us(entropy), us(entropy) - us(header));
  std::printf("| inverse DCT, upsampling, colour | %.1f |\n",
              us(decode) - us(entropy));
  std::printf("| resizing, flipping, writing into the batch | %.1f |\n",
              us(draw) - us(decode));
  std::printf("| order, batch, threads: the rest of the engine | %.1f |\n",
              us(whole) - us(draw));
  std::printf("| **the whole pipeline, from memory** | %.1f |\n\n", us(whole));
  std::printf("| images/s | 1 thread | 2 threads |\n|---|---|---|\n");
  std::printf("| floor: Huffman codes alone | %.0f | %.0f |\n", Median(floor1),
              Median(floor2));
  std::printf("| the whole pipeline | %.0f | %.0f |\n", 1 / Median(whole),
              1 / Median(two));
  std::printf("| share of the floor | %.0f %% | %.0f %% |\n\n",
              100 / Median(whole) / Median(floor1),
              100 / Median(two) / Median(floor2));
  std::printf("%zu of %zu photographs are sequential and were used.\n\n",
              samples.size(), photographs.size());
  return absl::OkStatus();
}

// --- pipelines
// ------------------------------------------------------------------

// Of a spec over `source`: seconds a sample with 1 and with 2 threads.
struct Measured {
  std::vector<double> one;
  std::vector<double> two;
  std::string refused;  // not empty: this version does not run it
};

class Runners {
 public:
  Runners(std::shared_ptr<const RecordSource> source, const NamedSpec& spec) {
    for (int t = 0; t < 2; ++t) {
      SpecRunner::Options options;
      options.threads = t + 1;
      const auto parsed = SpecOf(spec.transforms);
      auto runner = parsed.ok() ? SpecRunner::Create(source, *parsed, options)
                                : parsed.status();
      if (!runner.ok()) {
        measured_.refused = std::string(runner.status().message());
        return;
      }
      runners_[t] = *std::move(runner);
    }
  }

  // One round, with one thread and, unless told otherwise, with two.
  void Measure(int threads = 2) {
    for (int t = 0; t < threads && measured_.refused.empty(); ++t) {
      const auto seconds = SecondsPerSample(*runners_[t]);
      if (!seconds.ok()) {
        measured_.refused = std::string(seconds.status().message());
        return;
      }
      (t == 0 ? measured_.one : measured_.two).push_back(*seconds);
    }
  }

  const Measured& measured() const { return measured_; }
  const PipelineSpec& resolved() const { return runners_[0]->resolved_spec(); }

 private:
  std::unique_ptr<SpecRunner> runners_[2];
  Measured measured_;
};

void Pipelines(const Samples& photographs, const DatasetInfo& info) {
  const auto memory = NewMemorySource(info, photographs);
  std::printf("| pipeline, images/s | 1 thread | 2 threads |\n|---|---|---|\n");
  for (const NamedSpec& spec : kPipelines) {
    if (!Wanted("pipelines", spec.name)) continue;
    Runners runners(memory, spec);
    for (int r = 0; r < absl::GetFlag(FLAGS_rounds); ++r) runners.Measure();
    const Measured& m = runners.measured();
    if (!m.refused.empty()) {
      std::printf("| %s | refused: %s | |\n", spec.name, m.refused.c_str());
    } else {
      std::printf("| %s | %.0f | %.0f |\n", spec.name, 1 / Median(m.one),
                  1 / Median(m.two));
    }
    std::fflush(stdout);
  }
  std::printf("\n");
}

// --- transforms
// -----------------------------------------------------------------

constexpr int kSide = 256;

// 256 x 256 pixels of each photograph, as raw tensors.
absl::StatusOr<std::shared_ptr<const RecordSource>> RawPixels(
    const Samples& photographs) {
  MR_ASSIGN_OR_RETURN(const PipelineSpec spec,
                      SpecOf("transforms { decode_image {} } transforms { "
                             "resize { height: 256 width: 256 } }"));
  Field encoded;
  encoded.set_name("image");
  encoded.set_kind(FIELD_KIND_ENCODED_IMAGE);
  std::vector<PlacedTransform> placed;
  for (const Transform& t : spec.transforms()) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  MR_ASSIGN_OR_RETURN(const auto stage, ImageStage::Create(encoded, placed));
  const auto scratch = stage->NewScratch();
  Samples raw;
  for (size_t i = 0; i < std::min<size_t>(photographs.size(), 256); ++i) {
    std::vector<uint8_t> pixels(kSide * kSide * 3);
    MR_RETURN_IF_ERROR(stage->Run(Bytes(photographs[i][0]), i, *scratch,
                                  absl::MakeSpan(pixels)));
    std::string label(8, '\0');
    label[0] = static_cast<char>(i % 10);
    raw.push_back({std::string(pixels.begin(), pixels.end()), label});
  }
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_TENSOR);
  image.set_dtype(DTYPE_UINT8);
  for (int64_t side : {kSide, kSide, 3}) image.add_shape(side);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  return NewMemorySource(info, std::move(raw));
}

absl::Status Transforms(const Samples& photographs) {
  MR_ASSIGN_OR_RETURN(const auto raw, RawPixels(photographs));
  Runners base(raw, {"", ""});
  base.Measure();
  std::printf(
      "| transform of 256 x 256 pixels | us an image | ns a pixel | "
      "images/s, 1 thread | 2 threads |\n|---|---|---|---|---|\n");
  std::vector<double> copies;
  for (const NamedSpec& spec : kTransforms) {
    if (!Wanted("transforms", spec.name)) continue;
    Runners runners(raw, spec);
    std::vector<double> own;
    for (int r = 0; r < absl::GetFlag(FLAGS_rounds); ++r) {
      base.Measure(1);
      runners.Measure();
      if (!runners.measured().refused.empty()) break;
      own.push_back(runners.measured().one.back() - base.measured().one.back());
      copies.push_back(base.measured().one.back());
    }
    const Measured& m = runners.measured();
    if (!m.refused.empty()) {
      std::printf("| %s | refused: %s | | | |\n", spec.name, m.refused.c_str());
    } else {
      std::printf("| %s | %.1f | %.2f | %.0f | %.0f |\n", spec.name,
                  1e6 * Median(own), 1e9 * Median(own) / (kSide * kSide),
                  1 / Median(m.one), 1 / Median(m.two));
    }
    std::fflush(stdout);
  }
  std::printf("\nA copy without a transform, taken off: %.1f us an image.\n",
              1e6 * Median(copies));
  return absl::OkStatus();
}

absl::Status Main() {
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const RecordSource> source,
                      OpenRecordSource(absl::GetFlag(FLAGS_dataset), {}));
  MR_ASSIGN_OR_RETURN(const Samples photographs, ReadAll(*source));
  const std::string only = absl::GetFlag(FLAGS_only);
  if (Wanted("stages", "")) MR_RETURN_IF_ERROR(Stages(source, photographs));
  if (only.empty() || only == "pipelines") {
    Pipelines(photographs, source->info());
  }
  if (only.empty() || only == "transforms") {
    MR_RETURN_IF_ERROR(Transforms(photographs));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  if (absl::Status status = millrace::Main(); !status.ok()) {
    std::fprintf(stderr, "stage_bench: %s\n",
                 std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
