// Indices a second of the plan, on one core: the permutation alone, and a
// sample reference (permutation, subset, key) as the pipeline takes it.

#include <benchmark/benchmark.h>

#include "server/plan/epoch_order.h"
#include "server/plan/keys.h"
#include "server/plan/permutation.h"
#include "server/plan/subset.h"

namespace millrace {
namespace {

void BM_Permutation(benchmark::State& state) {
  const uint64_t n = state.range(0);
  const Permutation order(PermutationKey(1, 0, n), n);
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
  const Permutation order(PermutationKey(1, 0, n), n);
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
    sum += Permutation(PermutationKey(1, epoch++, n), n).At(0);
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
  const EpochOrder order(shuffle, 1, 0, n);
  uint64_t position = 0, sum = 0;
  for (auto _ : state) sum += order.At(position++ % n);
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BlockOrder);

void BM_SampleKey(benchmark::State& state) {
  const KeyHash epoch = KeyHash(KeyDomain::kSample).Add(1).Add(0).Add(0);
  uint64_t index = 0, sum = 0;
  for (auto _ : state) sum += epoch.Add(index++).Add(0).value();
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SampleKey);

}  // namespace
}  // namespace millrace
