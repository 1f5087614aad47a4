#include "server/plan/source_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"

namespace millrace::plan {
namespace {

using Uint128 = unsigned __int128;

// The weights as integers; the largest has 52 bits. Bits of smaller weights far
// below the tolerance are cut off. frexp and ldexp are exact.
std::vector<uint64_t> Integers(absl::Span<const double> weights) {
  int exponent;
  std::frexp(*std::max_element(weights.begin(), weights.end()), &exponent);
  std::vector<uint64_t> integers;
  for (double weight : weights) {
    MR_CHECK(weight > 0 && std::isfinite(weight)) << "weight " << weight;
    integers.push_back(
        static_cast<uint64_t>(std::ldexp(weight, 52 - exponent)));
  }
  return integers;
}

// Sets the nearest whole number to weight * size / sum. False: the difference
// is more than 2^-40 of a block.
bool WholeSlots(uint64_t weight, uint64_t size, uint64_t sum, uint64_t* slots) {
  // The product has at most 52 + 16 bits.
  const Uint128 wanted = static_cast<Uint128>(weight) * size;
  *slots = static_cast<uint64_t>((wanted + sum / 2) / sum);
  const Uint128 had = static_cast<Uint128>(*slots) * sum;
  const Uint128 off = wanted > had ? wanted - had : had - wanted;
  return (off << 40) <= static_cast<Uint128>(size) * sum;
}

// Distributes `size` in proportion to `parts` by largest remainder. Among equal
// remainders, the first wins.
std::vector<uint64_t> ShareOut(const std::vector<uint64_t>& parts, uint64_t sum,
                               uint64_t size) {
  std::vector<uint64_t> shares(parts.size());
  std::vector<uint64_t> remainders(parts.size());
  uint64_t given = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Uint128 wanted = static_cast<Uint128>(parts[i]) * size;
    shares[i] = static_cast<uint64_t>(wanted / sum);
    remainders[i] = static_cast<uint64_t>(wanted % sum);
    given += shares[i];
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return remainders[a] > remainders[b];
  });
  for (size_t i = 0; given < size; ++i, ++given) ++shares[order[i]];
  return shares;
}

// The slots of each source in a block; 0: the share of the source is too small.
std::vector<uint64_t> Slots(absl::Span<const double> weights) {
  const std::vector<uint64_t> parts = Integers(weights);
  const uint64_t sum = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  std::vector<uint64_t> slots(parts.size());
  for (uint64_t size = 1; size <= SourceSchedule::kMaxBlockSlots; ++size) {
    bool whole = true;
    for (size_t i = 0; i < parts.size() && whole; ++i) {
      whole = WholeSlots(parts[i], size, sum, &slots[i]);
    }
    if (!whole) continue;
    const uint64_t times =
        std::max<uint64_t>(1, SourceSchedule::kUsualBlockSlots / size);
    for (uint64_t& count : slots) count *= times;
    return slots;
  }
  constexpr uint64_t kMax = SourceSchedule::kMaxBlockSlots;
  slots = ShareOut(parts, sum, kMax);
  for (size_t i = 0; i < parts.size(); ++i) {
    // A share of less than one slot gets none, whatever the remainders gave.
    if (static_cast<Uint128>(parts[i]) * kMax < sum) slots[i] = 0;
  }
  return slots;
}

std::vector<uint64_t> FirstSlots(const std::vector<uint64_t>& slots) {
  std::vector<uint64_t> first = {0};
  for (uint64_t count : slots) first.push_back(first.back() + count);
  return first;
}

}  // namespace

absl::StatusOr<SourceSchedule> SourceSchedule::Create(
    absl::Span<const double> weights, uint64_t epoch_samples) {
  MR_CHECK(!weights.empty() && epoch_samples >= 1);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::vector<uint64_t> slots = Slots(weights);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sources[", i, "]: weight ", weights[i], " of a sum of ",
                     sum, " is less than one sample in ", kMaxBlockSlots,
                     ", the resolution of a mixture's schedule: raise the "
                     "weight, or remove the source"));
  }
  SourceSchedule schedule;
  schedule.epoch_samples_ = epoch_samples;
  schedule.block_ = FirstSlots(slots);
  const uint64_t size = schedule.block_size();
  schedule.blocks_ = epoch_samples / size;
  schedule.rest_ = FirstSlots(ShareOut(slots, size, epoch_samples % size));
  for (int i = 0; i < schedule.sources(); ++i) {
    if (schedule.per_epoch(i) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sources[", i, "]: an epoch of ", epoch_samples,
                     " samples contains no sample of a source of weight ",
                     weights[i], " of a sum of ", sum,
                     ": raise epoch_samples or the weight of the source"));
  }
  return schedule;
}

SourceSchedule::Epoch::Epoch(const SourceSchedule& schedule, uint64_t seed,
                             uint64_t epoch, bool shuffled)
    : schedule_(schedule),
      key_(KeyHash(KeyDomain::kSlots).Add(seed).Add(epoch)) {
  if (!shuffled) return;
  // More than kMaxTable slots, because At() with a tweak needs it: a block is
  // repeated up to kUsualBlockSlots, so it has more than half of them.
  static_assert(kUsualBlockSlots / 2 >= Permutation::kMaxTable);
  order_.emplace(key_.Add(schedule.block_size()).value(),
                 schedule.block_size());
  const uint64_t rest = schedule.rest_.back();
  if (rest > 0) rest_order_.emplace(key_.Add(schedule.blocks_).value(), rest);
}

SourceSchedule::Place SourceSchedule::Epoch::At(uint64_t position) const {
  const uint64_t size = schedule_.block_size();
  const uint64_t block = position / size;
  uint64_t slot = position - block * size;
  const std::vector<uint64_t>* first = &schedule_.block_;
  if (block < schedule_.blocks_) {
    if (order_) slot = order_->At(slot, key_.Add(block).value());
  } else {
    first = &schedule_.rest_;
    if (rest_order_) slot = rest_order_->At(slot);
  }
  // The last source that begins at or before the slot. A source without slots
  // in the remainder begins where the next one begins.
  const auto end = std::upper_bound(first->begin(), first->end(), slot);
  const auto source = static_cast<uint32_t>(end - first->begin() - 1);
  return {source, block * schedule_.slots(static_cast<int>(source)) + slot -
                      (*first)[source]};
}

}  // namespace millrace::plan
