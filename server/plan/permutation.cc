#include "server/plan/permutation.h"

#include <bit>
#include <utility>

#include "common/logging.h"
#include "server/plan/keys.h"

namespace millrace {

Permutation::Permutation(uint64_t key, uint64_t n) : n_(n) {
  MR_CHECK(n >= 1 && n <= kMaxSize) << "a permutation of " << n;
  uint64_t state = key;
  // SplitMix64.
  const auto next = [&state] { return Mix64(state += kGolden64); };
  if (n <= kMaxTable) {
    low_bits_ = pairs_ = 0;
    low_mask_ = high_mask_ = 0;
    for (uint64_t i = 0; i < n; ++i) table_.at[i] = static_cast<uint8_t>(i);
    for (uint64_t i = n - 1; i > 0; --i) {
      const auto j = static_cast<uint64_t>(
          static_cast<unsigned __int128>(next()) * (i + 1) >> 64);
      std::swap(table_.at[i], table_.at[j]);
    }
    for (uint64_t i = 0; i < n; ++i) {
      table_.inverse[table_.at[i]] = static_cast<uint8_t>(i);
    }
    return;
  }
  const int bits = static_cast<int>(std::bit_width(n - 1));
  low_bits_ = bits / 2;
  pairs_ = bits < 16 ? 8 : bits < 24 ? 5 : 4;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
  for (int i = 0; i < 2 * pairs_; ++i) {
    keys_[i].add = next();
    keys_[i].multiply = next() | 1;  // never zero
  }
}

}  // namespace millrace
