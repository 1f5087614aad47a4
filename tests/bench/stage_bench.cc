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
// Medians over the rounds. Microseconds are processor time, which other
// programs on the machine disturb little; images/s are by the clock. Prints
// tables in Markdown.

#include <time.h>

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
#include "server/pipeline/stage/image_stage.h"
#include "server/pipeline/stage/segment_painter.h"
#include "server/storage/open.h"
#include "tests/bench/bench_specs.h"
#include "tests/bench/entropy_floor.h"
#include "tests/bench/spec_runner.h"
#include "tests/server/storage/memory/memory_source.h"

ABSL_FLAG(std::string, dataset, "", "packed photographs, lmdb:PATH");
ABSL_FLAG(double, seconds, 0.5, "how long a figure is measured in each round");
ABSL_FLAG(int, rounds, 3, "rounds");
ABSL_FLAG(std::string, only, "", "stages, pipelines or transforms");
ABSL_FLAG(std::string, filter, "", "rows whose name contains this word");

namespace millrace {
namespace {

// --- Helpers -----------------------------------------------------------------

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

struct Cost {
  double wall = 0;  // seconds
  double cpu = 0;
};

double ThreadCpuSeconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Of a call of `call(i)`, i counting up over all rounds.
Cost CostOf(const std::function<void(uint64_t)>& call, uint64_t& next) {
  const double seconds = absl::GetFlag(FLAGS_seconds);
  const Clock::time_point start = Clock::now();
  const double cpu = ThreadCpuSeconds();
  const uint64_t first = next;
  double elapsed = 0;
  do {
    for (int i = 0; i < 16; ++i) call(next++);
    elapsed = Seconds(Clock::now() - start);
  } while (elapsed < seconds);
  const auto calls = static_cast<double>(next - first);
  return {elapsed / calls, (ThreadCpuSeconds() - cpu) / calls};
}

absl::StatusOr<Samples> ReadAll(const storage::RecordSource& source) {
  MR_ASSIGN_OR_RETURN(auto reader, source.NewReader());
  Samples samples;
  for (int64_t i = 0; i < source.info().samples(); ++i) {
    MR_RETURN_IF_ERROR(
        reader->Read(i, [&](const storage::EncodedSample& sample) {
          auto& fields = samples.emplace_back();
          for (const auto& field : sample.fields) {
            fields.emplace_back(field.begin(), field.end());
          }
          return absl::OkStatus();
        }));
  }
  return samples;
}

// Of a sample of a spec; the processor time is that of all threads.
absl::StatusOr<Cost> CostOfSample(SpecRunner& runner) {
  MR_ASSIGN_OR_RETURN(
      const SpecRunner::Rate rate,
      runner.Measure(absl::Seconds(absl::GetFlag(FLAGS_seconds))));
  const auto samples = static_cast<double>(rate.samples);
  return Cost{rate.seconds / samples, rate.cpu_seconds / samples};
}

// --- stages ------------------------------------------------------------------

// The crop of a photograph as RandomResizedCrop(224) at place 1 and a flip draw
// it, as one segment.
augment::Segment CropOf(augment::Size image, uint64_t key) {
  augment::CounterRandom random(key, 1);
  augment::Segment s;
  s.box = augment::RandomCropRect(image, {}, random);
  s.resize = true;
  s.resized = {224, 224};
  s.window = {0, 0, 224, 224};
  s.canvas = {224, 224};
  s.flip = key >> 63 != 0;
  return s;
}

// What SegmentPainter asks the decoder for.
decode::DecodeRegion RegionOf(const augment::Segment& s, int divisor) {
  decode::DecodeRegion r;
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
  pipeline::Pixels Decode(uint64_t i) {
    const auto opened = painter_.decoder().Open(Photo(i), false);
    MR_CHECK(opened.ok()) << opened.status();
    pipeline::Pixels pixels;
    const absl::Status status =
        painter_.Decode(Crop(i), SizeOf(i), {.divisor = Divisor(i)}, &pixels);
    MR_CHECK(status.ok()) << status;
    return pixels;
  }
  void DecodeAndDraw(uint64_t i) {
    const pipeline::Pixels pixels = Decode(i);
    // The next slot of a batch is not in the cache.
    uint8_t* slot = &batch_[(i % 64) * 224 * 224 * 3];
    MR_CHECK(painter_.Draw(Crop(i), pixels, 3, slot, 224 * 3).ok());
  }

 private:
  absl::Span<const uint8_t> Photo(uint64_t i) const {
    return Bytes(samples_[i % samples_.size()][0]);
  }
  augment::Size SizeOf(uint64_t i) const {
    const decode::ImageHeader& header = headers_[i % headers_.size()];
    return {header.width, header.height};
  }
  augment::Segment Crop(uint64_t i) const {
    return CropOf(SizeOf(i), KeyOf(i));
  }
  int Divisor(uint64_t i) const {
    return pipeline::ChooseDivisor(Crop(i),
                                   headers_[i % headers_.size()].max_divisor);
  }

  const Samples& samples_;
  std::vector<decode::ImageHeader> headers_;
  pipeline::SegmentPainter painter_;
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
      rates[t] = 1 / CostOf([&](uint64_t i) { walker.Floor(i); }, next).wall;
    });
  }
  double sum = 0;
  for (int t = 0; t < threads; ++t) {
    pool[t].join();
    sum += rates[t];
  }
  return sum;
}

absl::Status Stages(std::shared_ptr<const storage::RecordSource> source,
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
  MR_ASSIGN_OR_RETURN(const PipelineSpec spec, SpecOf(kPipelines[0].text));
  // In memory, so that reading is not among it, and the same photographs.
  std::vector<std::unique_ptr<SpecRunner>> runners;
  const auto memory = storage::NewMemorySource(source->info(), samples);
  for (uint32_t threads : {1, 2}) {
    SpecRunner::Options options;
    options.threads = threads;
    MR_ASSIGN_OR_RETURN(runners.emplace_back(),
                        SpecRunner::Create(memory, spec, options));
  }
  std::vector<double> read, header, entropy, decode, draw, whole;
  std::vector<double> one_thread, two_threads, floor1, floor2;
  uint64_t next = 0, sum = 0;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    const auto cpu = [&](const std::function<void(uint64_t)>& call) {
      uint64_t from = next;  // the same crops for each
      return CostOf(call, from).cpu;
    };
    read.push_back(cpu([&](uint64_t i) {
      const auto status =
          reader->Read(i * 619 % source->info().samples(),
                       [&](const storage::EncodedSample& s) {
                         const auto bytes = s.fields[0];
                         for (size_t b = 0; b < bytes.size(); b += 64)
                           sum += bytes[b];
                         return absl::OkStatus();
                       });
      MR_CHECK(status.ok()) << status;
    }));
    header.push_back(cpu([&](uint64_t i) { walker.Open(i); }));
    entropy.push_back(cpu([&](uint64_t i) { walker.Floor(i); }));
    decode.push_back(cpu([&](uint64_t i) { walker.Decode(i); }));
    draw.push_back(cpu([&](uint64_t i) { walker.DecodeAndDraw(i); }));
    MR_ASSIGN_OR_RETURN(const Cost one, CostOfSample(*runners[0]));
    MR_ASSIGN_OR_RETURN(const Cost two, CostOfSample(*runners[1]));
    whole.push_back(one.cpu);
    one_thread.push_back(one.wall);
    two_threads.push_back(two.wall);
    floor1.push_back(FloorRate(samples, 1));
    floor2.push_back(FloorRate(samples, 2));
    next += samples.size();
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
  const double rate1 = 1 / Median(one_thread);
  const double rate2 = 1 / Median(two_threads);
  std::printf("| the whole pipeline | %.0f | %.0f |\n", rate1, rate2);
  std::printf("| share of the floor | %.0f %% | %.0f %% |\n\n",
              100 * rate1 / Median(floor1), 100 * rate2 / Median(floor2));
  std::printf("%zu of %zu photographs are sequential and were used.\n\n",
              samples.size(), photographs.size());
  return absl::OkStatus();
}

// --- pipelines ---------------------------------------------------------------

// Of a spec, round by round.
struct Measured {
  std::vector<double> cpu;  // seconds a sample with 1 thread
  std::vector<double> one;  // the same by the clock
  std::vector<double> two;  // with 2 threads
  std::string refused;      // not empty: this version does not run it
};

class Runners {
 public:
  Runners(std::shared_ptr<const storage::RecordSource> source,
          const NamedSpec& spec) {
    for (int t = 0; t < 2; ++t) {
      SpecRunner::Options options;
      options.threads = t + 1;
      const auto parsed = SpecOf(spec.text);
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
      const auto cost = CostOfSample(*runners_[t]);
      if (!cost.ok()) {
        measured_.refused = std::string(cost.status().message());
        return;
      }
      if (t == 0) measured_.cpu.push_back(cost->cpu);
      (t == 0 ? measured_.one : measured_.two).push_back(cost->wall);
    }
  }

  const Measured& measured() const { return measured_; }

 private:
  std::unique_ptr<SpecRunner> runners_[2];
  Measured measured_;
};

void Pipelines(const Samples& photographs, const DatasetInfo& info) {
  const auto memory = storage::NewMemorySource(info, photographs);
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

// --- transforms --------------------------------------------------------------

constexpr int kSide = 256;

// 256 x 256 pixels of each photograph, as raw tensors.
absl::StatusOr<std::shared_ptr<const storage::RecordSource>> RawPixels(
    const Samples& photographs) {
  MR_ASSIGN_OR_RETURN(const PipelineSpec spec,
                      SpecOf("transforms { decode_image {} } transforms { "
                             "resize { height: 256 width: 256 } }"));
  Field encoded;
  encoded.set_name("image");
  encoded.set_kind(FIELD_KIND_ENCODED_IMAGE);
  std::vector<pipeline::PlacedTransform> placed;
  for (const Transform& t : spec.transforms()) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  MR_ASSIGN_OR_RETURN(const auto stage,
                      pipeline::ImageStage::Create(encoded, placed));
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
  return storage::NewMemorySource(info, std::move(raw));
}

absl::Status Transforms(const Samples& photographs) {
  MR_ASSIGN_OR_RETURN(const auto raw, RawPixels(photographs));
  Runners base(raw, {"", "batch_size: 64"});  // an empty spec is refused
  base.Measure();
  if (!base.measured().refused.empty()) {
    return absl::InternalError(absl::StrCat(
        "a copy without a transform is refused: ", base.measured().refused));
  }
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
      if (!base.measured().refused.empty() ||
          !runners.measured().refused.empty()) {
        break;
      }
      own.push_back(runners.measured().cpu.back() - base.measured().cpu.back());
      copies.push_back(base.measured().cpu.back());
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
  MR_ASSIGN_OR_RETURN(
      std::shared_ptr<const storage::RecordSource> source,
      storage::OpenRecordSource(absl::GetFlag(FLAGS_dataset), {}));
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
