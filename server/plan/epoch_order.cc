#include "server/plan/epoch_order.h"

#include <algorithm>

#include "server/plan/keys.h"

namespace millrace::plan {
namespace {

uint64_t OrderKey(Shuffle::Mode mode, uint64_t seed, uint64_t epoch,
                  uint64_t n) {
  if (mode == Shuffle::BLOCK) {
    return KeyHash(KeyDomain::kBlock).Add(seed).Add(epoch).Add(n).value();
  }
  return PermutationKey(seed, epoch, n);
}

}  // namespace

EpochOrder::EpochOrder(const Shuffle& shuffle, uint64_t seed, uint64_t epoch,
                       uint64_t n)
    : mode_(shuffle.mode()),
      n_(n),
      block_size_(std::max<uint64_t>(1, shuffle.block_size())),
      window_blocks_(std::max<uint64_t>(1, shuffle.window_blocks())),
      blocks_((n + block_size_ - 1) / block_size_),
      by_block_size_(block_size_),
      by_window_blocks_(window_blocks_),
      window_key_(KeyHash(KeyDomain::kWindow).Add(seed).Add(epoch).Add(n)),
      permutation_(OrderKey(mode_, seed, epoch, n),
                   mode_ == Shuffle::BLOCK ? blocks_ : n) {
  if (mode_ == Shuffle::BLOCK) {
    short_place_ = permutation_.Inverse(blocks_ - 1);
    short_size_ = n_ - (blocks_ - 1) * block_size_;
  }
}

uint64_t EpochOrder::StartOfPlace(uint64_t place) const {
  return place <= short_place_ ? place * block_size_
                               : (place - 1) * block_size_ + short_size_;
}

uint64_t EpochOrder::PlaceOfPosition(uint64_t position) const {
  const uint64_t short_start = short_place_ * block_size_;
  if (position < short_start) return by_block_size_(position);
  if (position < short_start + short_size_) return short_place_;
  return short_place_ + 1 +
         by_block_size_(position - short_start - short_size_);
}

uint64_t EpochOrder::BlockAt(uint64_t position) const {
  const uint64_t window = by_window_blocks_(PlaceOfPosition(position));
  const uint64_t first = window * window_blocks_;
  const uint64_t last = std::min(first + window_blocks_, blocks_);
  const uint64_t start = StartOfPlace(first);
  const uint64_t size = (last == blocks_ ? n_ : StartOfPlace(last)) - start;
  const uint64_t key = window_key_.Add(window).value();
  const uint64_t mixed =
      start + Permutation::AtOnce(key, size, position - start);
  const uint64_t place = PlaceOfPosition(mixed);
  return permutation_.At(place) * block_size_ + (mixed - StartOfPlace(place));
}

}  // namespace millrace::plan
