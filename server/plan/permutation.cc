#include "server/plan/permutation.h"

#include <algorithm>
#include <bit>

#include "common/logging.h"
#include "server/plan/keys.h"

namespace millrace {

Permutation::Permutation(uint64_t key, uint64_t n) : n_(n) {
  MR_CHECK(n >= 1 && n <= kMaxSize) << "a permutation of " << n;
  const int bits = std::max(4, static_cast<int>(std::bit_width(n - 1)));
  low_bits_ = bits / 2;
  pairs_ = bits < 16 ? 8 : bits < 24 ? 5 : 4;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
  // SplitMix64 as the key schedule. An odd multiplier is never zero.
  uint64_t state = key;
  for (int i = 0; i < 2 * pairs_; ++i) {
    keys_[i].add = Mix64(state += kGolden64);
    keys_[i].multiply = Mix64(state += kGolden64) | 1;
  }
}

}  // namespace millrace
