// How well the orders shuffle, in numbers (docs/order.md): each against a
// random permutation, which has 1 in every column.
//
//   entropy   of the distances |i - j| of samples that follow one another, as
//             Mosaic Streaming's simulator measures it
//   moved     mean distance of a sample from its place in the dataset
//   classes   different classes in a batch of 256, of a dataset of 1,000
//   classes
//             that lies sorted by class, as a packed folder of images does
//   unevenness  of their counts in a batch: their sum of squared differences
//             from the mean; more than 1 is less even than chance
//
// Prints tab-separated lines. Takes some seconds.
//
//   bazel run -c opt //tests/bench:shuffle_quality

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "server/plan/epoch_order.h"
#include "server/plan/source_schedule.h"

namespace millrace {
namespace {

constexpr uint64_t kSamples = 1'281'167;  // ImageNet's
constexpr uint64_t kClasses = 1000;
constexpr uint64_t kBatch = 256;
constexpr uint64_t kBlock = 64;
constexpr int kEpochs = 3;

struct Quality {
  double entropy = 0;  // bits
  double moved = 0;    // of the dataset's length
  double classes = 0;
  double unevenness = 0;
};

void Add(const std::vector<uint32_t>& order, Quality& sum) {
  std::vector<uint32_t> distances(kSamples, 0);
  double moved = 0;
  for (uint64_t p = 0; p < kSamples; ++p) {
    const double from = order[p], to = static_cast<double>(p);
    moved += std::abs(from - to);
    if (p == 0) continue;
    const int64_t step = int64_t{order[p]} - int64_t{order[p - 1]};
    ++distances[std::abs(step)];
  }
  double entropy = 0;
  for (uint32_t count : distances) {
    if (count == 0) continue;
    const double p = count / static_cast<double>(kSamples - 1);
    entropy -= p * std::log2(p);
  }
  const uint64_t batches = kSamples / kBatch;
  double classes = 0, unevenness = 0;
  for (uint64_t b = 0; b < batches; ++b) {
    std::vector<int> count(kClasses, 0);
    for (uint64_t r = 0; r < kBatch; ++r) {
      ++count[uint64_t{order[b * kBatch + r]} * kClasses / kSamples];
    }
    const double mean = static_cast<double>(kBatch) / kClasses;
    for (int c : count) {
      classes += c > 0;
      unevenness += (c - mean) * (c - mean);
    }
  }
  sum.entropy += entropy / kEpochs;
  sum.moved += moved / kSamples / kSamples / kEpochs;
  sum.classes += classes / static_cast<double>(batches) / kEpochs;
  sum.unevenness += unevenness / static_cast<double>(batches) / kEpochs;
}

Quality OfRandom() {
  Quality quality;
  std::vector<uint32_t> order(kSamples);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  for (int e = 0; e < kEpochs; ++e) {
    std::shuffle(order.begin(), order.end(), random);
    Add(order, quality);
  }
  return quality;
}

Quality Of(const Shuffle& shuffle) {
  Quality quality;
  std::vector<uint32_t> indices(kSamples);
  for (int e = 0; e < kEpochs; ++e) {
    const plan::EpochOrder order(shuffle, 1, e, kSamples);
    for (uint64_t p = 0; p < kSamples; ++p) {
      indices[p] = static_cast<uint32_t>(order.At(p));
    }
    Add(indices, quality);
  }
  return quality;
}

void Print(const std::string& name, const Quality& quality,
           const Quality& random) {
  std::printf("%s\t%.3f\t%.3f\t%.3f\t%.2f\t%.1f\n", name.c_str(),
              quality.entropy / random.entropy, quality.moved / random.moved,
              quality.classes / random.classes,
              quality.unevenness / random.unevenness, quality.classes);
}

// The spread of a source's share of a batch, against that of samples that are
// drawn one by one.
void PrintMixture(const std::vector<double>& weights) {
  const auto schedule = plan::SourceSchedule::Create(weights, 10'000'000);
  if (!schedule.ok()) return;
  const auto epoch = schedule->ForEpoch(1, 0, /*shuffled=*/true);
  const double share =
      schedule->slots(0) / static_cast<double>(schedule->block_size());
  constexpr uint64_t kBatches = 10'000;
  double squares = 0;
  for (uint64_t b = 0; b < kBatches; ++b) {
    int count = 0;
    for (uint64_t r = 0; r < kBatch; ++r) {
      count += epoch.At(b * kBatch + r).source == 0;
    }
    squares += std::pow(count / double{kBatch} - share, 2);
  }
  const double drawn = share * (1 - share) / kBatch;
  std::printf("mixture %g:%g\tblock %llu\tshare %.4f\tspread %.3f\n",
              weights[0], weights[1],
              static_cast<unsigned long long>(schedule->block_size()), share,
              std::sqrt(squares / kBatches / drawn));
}

void Run() {
  std::printf(
      "order\tentropy\tmoved\tclasses\tunevenness\tclasses in a batch\n");
  const Quality random = OfRandom();
  Print("random", random, random);
  Shuffle shuffle;
  Print("GLOBAL", Of(shuffle), random);
  shuffle.set_mode(Shuffle::BLOCK);
  shuffle.set_block_size(kBlock);
  for (uint64_t window : {1, 2, 4, 8, 16, 64, 256, 1024}) {
    shuffle.set_window_blocks(window);
    Print("BLOCK " + std::to_string(window), Of(shuffle), random);
  }
  shuffle.Clear();
  shuffle.set_mode(Shuffle::SEQUENTIAL);
  Print("SEQUENTIAL", Of(shuffle), random);
  PrintMixture({0.7, 0.3});
  PrintMixture({1281167, 60000});
}

}  // namespace
}  // namespace millrace

int main() { millrace::Run(); }
