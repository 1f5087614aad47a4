// Samples a second of the engine without network and storage: 28 x 28 samples
// from memory in batches of 64, and batches of some megabytes, whose memory is
// the question. Argument: worker threads.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "common/byte_budget.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/spec_text.h"
#include "server/pipeline/engine.h"
#include "tests/server/storage/memory/memory_source.h"

namespace millrace {
namespace {

std::shared_ptr<const storage::RecordSource> RawSource(
    int64_t samples, std::vector<int64_t> shape) {
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_TENSOR);
  image.set_dtype(DTYPE_UINT8);
  size_t bytes = 1;
  for (int64_t dim : shape) {
    image.add_shape(dim);
    bytes *= dim;
  }
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    all.push_back(
        {std::string(bytes, static_cast<char>(i)), std::string(8, '\0')});
  }
  return storage::NewMemorySource(info, std::move(all));
}

void Deliver(benchmark::State& state,
             std::shared_ptr<const storage::RecordSource> source,
             const std::string& spec_text) {
  ByteBudget budget(uint64_t{2} << 30);
  pipeline::Engine::Options options;
  options.threads = static_cast<uint32_t>(state.range(0));
  options.budget = &budget;
  auto engine = pipeline::Engine::Create(options, {{"raw", std::move(source)}});
  MR_CHECK(engine.ok()) << engine.status();
  const auto spec = ParseSpecText(spec_text, "bench");
  MR_CHECK(spec.ok()) << spec.status();
  const auto pipeline = (*engine)->Open(*spec);
  MR_CHECK(pipeline.ok()) << pipeline.status();
  const OpenResponse& plan = (*pipeline)->description();
  uint64_t epoch = 0, bytes = 0;
  for (auto _ : state) {
    Mutex mu;
    CondVar changed;
    bool done = false;
    pipeline::Engine::Callbacks callbacks;
    callbacks.on_batch = [](batch::FilledBatch batch) {
      benchmark::DoNotOptimize(batch.payload->data());
    };
    callbacks.on_done = [&](absl::Status status) {
      MR_CHECK(status.ok()) << status;
      MutexLock lock(mu);
      done = true;
      changed.NotifyAll();
    };
    auto run = (*engine)->Start(
        *pipeline, {epoch++, 0, plan.steps_per_epoch(), 0, 1, false},
        std::move(callbacks));
    MR_CHECK(run.ok()) << run.status();
    MutexLock lock(mu);
    while (!done) changed.Wait(lock);
    bytes += *(*pipeline)->MaxPayloadBytes(1) * plan.steps_per_epoch();
  }
  state.SetItemsProcessed(state.iterations() * plan.steps_per_epoch() *
                          plan.resolved_spec().batch_size());
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}

void BM_Digits(benchmark::State& state) {
  static const auto source = RawSource(60'000, {28, 28, 1});
  Deliver(state, source,
          "sources { dataset: 'raw' } batch_size: 64 preset: 'mnist'");
}
BENCHMARK(BM_Digits)->Arg(1)->Arg(2)->MeasureProcessCPUTime()->UseRealTime();

// 64 x 224 x 224 x 3: 9.6 MB a batch.
void BM_LargeRawBatches(benchmark::State& state) {
  static const auto source = RawSource(640, {224, 224, 3});
  Deliver(state, source, "sources { dataset: 'raw' } batch_size: 64");
}
BENCHMARK(BM_LargeRawBatches)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace millrace
