// Indices a second of the plan, on one core: the permutation alone, and a
// sample reference (permutation, subset, key) as the pipeline takes it.

#include <benchmark/benchmark.h>

#include <vector>

#include "server/plan/epoch_order.h"
#include "server/plan/keys.h"
#include "server/plan/permutation.h"
#include "server/plan/plan.h"
#include "server/plan/source_schedule.h"
#include "server/plan/subset.h"

namespace millrace {
namespace {

void BM_Permutation(benchmark::State& state) {
  const uint64_t n = state.range(0);
  const plan::Permutation order(plan::PermutationKey(1, 0, n), n);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) {
    sum += order.At(position);
    if (++position == n) position = 0;
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
// The last two are the best and the worst case of walking.
BENCHMARK(BM_Permutation)
    ->Arg(100)
    ->Arg(60'000)
    ->Arg(1'281'167)
    ->Arg(1'000'000'000)
    ->Arg(int64_t{1} << 30)
    ->Arg((int64_t{1} << 30) + 1);

void BM_PermutationInverse(benchmark::State& state) {
  const uint64_t n = state.range(0);
  const plan::Permutation order(plan::PermutationKey(1, 0, n), n);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) {
    sum += order.Inverse(position);
    if (++position == n) position = 0;
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_PermutationInverse)->Arg(1'000'000'000);

void BM_PermutationConstruct(benchmark::State& state) {
  uint64_t epoch = 0, sum = 0;
  for (auto _ : state) {
    const uint64_t n = state.range(0);
    sum += plan::Permutation(plan::PermutationKey(1, epoch++, n), n).At(0);
  }
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(BM_PermutationConstruct)->Arg(256)->Arg(1'000'000'000);

void BM_BlockOrder(benchmark::State& state) {
  Shuffle shuffle;
  shuffle.set_mode(Shuffle::BLOCK);
  shuffle.set_block_size(64);
  shuffle.set_window_blocks(64);
  const uint64_t n = 1'000'000'000;
  const plan::EpochOrder order(shuffle, 1, 0, n);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) sum += order.At(position++ % n);
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BlockOrder);

// Position -> source and row of the source.
void BM_SourceSchedule(benchmark::State& state) {
  const uint64_t n = 1'000'000'000;
  const std::vector<double> weights(state.range(0), 1);
  const auto schedule = plan::SourceSchedule::Create(weights, n);
  const auto epoch = schedule->ForEpoch(1, 0, true);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) sum += epoch.At(position++ % n).row;
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SourceSchedule)->Arg(2)->Arg(16);

// A whole reference as the pipeline takes it: source, sample and key.
void BM_SampleRef(benchmark::State& state) {
  const int sources = static_cast<int>(state.range(0));
  const uint64_t n = 1'000'000'000;
  PipelineSpec spec;
  spec.set_batch_size(64);
  DatasetInfo info;
  info.set_samples(n);
  std::vector<const DatasetInfo*> infos;
  for (int i = 0; i < sources; ++i) {
    spec.add_sources()->set_weight(1);
    infos.push_back(&info);
  }
  const auto plan = plan::Plan::Create(spec, infos);
  const plan::Plan::Epoch epoch = plan->ForEpoch(3);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) sum += epoch.At(position++ % n).key;
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SampleRef)->Arg(1)->Arg(2)->Arg(16);

// To any position of an epoch of 10^9 samples: the epoch's order, made anew.
void BM_Seek(benchmark::State& state) {
  PipelineSpec spec;
  spec.set_batch_size(64);
  spec.add_sources()->set_weight(1);
  DatasetInfo info;
  info.set_samples(1'000'000'000);
  const auto plan = plan::Plan::Create(spec, info);
  uint64_t epoch = 0, sum = 0;
  for (auto _ : state) sum += plan->ForEpoch(epoch++).At(987'654'321).key;
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(BM_Seek);

void BM_SampleKey(benchmark::State& state) {
  const plan::KeyHash epoch =
      plan::KeyHash(plan::KeyDomain::kSample).Add(1).Add(0).Add(0);
  uint64_t index = 0, sum = 0;
  for (auto _ : state) sum += epoch.Add(index++).Add(0).value();
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SampleKey);

}  // namespace
}  // namespace millrace
