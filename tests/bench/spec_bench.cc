// Images a second of a pipeline alone, over a packed dataset, without network:
//
//   spec_bench --dataset=lmdb:PATH (--preset=NAME | --pipeline=FILE)
//              [--threads=2] [--read_threads=32] [--seconds=3 | --batches=N]
//              [--batch_size=64]
//   spec_bench --synthetic_latency_us=1000    (28 x 28 pixels, each read waits)
//
// --batches runs exactly N batches, the same work each time, so that the
// instructions of two versions can be compared:
//
//   valgrind --tool=callgrind spec_bench ... --threads=1 --batches=4
//
// The file holds a pipeline spec as text; its source is replaced by --dataset.
// Prints one JSON object: images_per_second, cpu_seconds_per_1000,
// bytes_per_image (of the batch's memory).

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/malloc_tuning.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"
#include "server/storage/open.h"
#include "server/storage/synthetic/synthetic_source.h"
#include "tests/bench/spec_runner.h"

ABSL_FLAG(std::string, dataset, "",
          "lmdb:PATH, parquet:PATH or imagefolder:PATH");
ABSL_FLAG(std::string, preset, "", "a pipeline by name");
ABSL_FLAG(std::string, pipeline, "", "file with a pipeline spec as text");
ABSL_FLAG(uint32_t, threads, 2, "worker threads");
ABSL_FLAG(uint32_t, read_threads, 32, "threads that may wait for storage");
ABSL_FLAG(uint32_t, synthetic_latency_us, 0,
          "no dataset: samples that take so long to read");
ABSL_FLAG(uint32_t, batch_size, 64, "samples of a batch");
ABSL_FLAG(double, seconds, 3, "how long to measure");
ABSL_FLAG(uint64_t, batches, 0,
          "run exactly this number of batches, without a warm-up; 0: measure "
          "for --seconds");

namespace millrace {
namespace {

absl::StatusOr<std::shared_ptr<const storage::RecordSource>> Open() {
  const uint32_t latency_us = absl::GetFlag(FLAGS_synthetic_latency_us);
  if (latency_us == 0) {
    return storage::OpenRecordSource(absl::GetFlag(FLAGS_dataset), {});
  }
  Synthetic synthetic;
  synthetic.set_samples(100'000);
  synthetic.set_latency_us(latency_us);
  SyntheticField& image = *synthetic.add_fields();
  image.set_name("image");
  image.set_dtype(DTYPE_UINT8);
  for (int side : {28, 28, 1}) image.add_shape(side);
  return storage::NewSyntheticSource(synthetic);
}

absl::Status Main() {
  PipelineSpec spec;
  if (const std::string path = absl::GetFlag(FLAGS_pipeline); !path.empty()) {
    std::ifstream in(path);
    if (!in) {
      return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
    }
    const std::string text{std::istreambuf_iterator<char>(in),
                           std::istreambuf_iterator<char>()};
    MR_ASSIGN_OR_RETURN(spec, ParseSpecText(text, path));
  }
  if (const std::string preset = absl::GetFlag(FLAGS_preset); !preset.empty()) {
    spec.set_preset(preset);
  }
  spec.set_batch_size(absl::GetFlag(FLAGS_batch_size));
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const storage::RecordSource> source,
                      Open());
  MR_ASSIGN_OR_RETURN(
      const std::unique_ptr<SpecRunner> runner,
      SpecRunner::Create(std::move(source), std::move(spec),
                         {.threads = absl::GetFlag(FLAGS_threads),
                          .read_threads = absl::GetFlag(FLAGS_read_threads)}));
  const uint64_t batches = absl::GetFlag(FLAGS_batches);
  MR_ASSIGN_OR_RETURN(
      const SpecRunner::Rate rate,
      batches > 0
          ? runner->Run(batches)
          : runner->Measure(absl::Seconds(absl::GetFlag(FLAGS_seconds))));
  std::printf(
      "{\"images_per_second\": %.1f, \"cpu_seconds_per_1000\": %.4f, "
      "\"bytes_per_image\": %.0f, \"images\": %llu, \"threads\": %u}\n",
      rate.samples / rate.seconds, 1e3 * rate.cpu_seconds / rate.samples,
      1.0 * rate.payload_bytes / rate.samples,
      static_cast<unsigned long long>(rate.samples),
      absl::GetFlag(FLAGS_threads));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  millrace::ReturnLargeBlocks();  // as millrace-server
  if (absl::Status status = millrace::Main(); !status.ok()) {
    std::fprintf(stderr, "spec_bench: %s\n",
                 std::string(status.message()).c_str());
    return status.code() == absl::StatusCode::kUnimplemented ? 3 : 1;
  }
  return 0;
}
