#include "server/plan/permutation.h"

#include <bit>
#include <utility>

#include "common/logging.h"
#include "server/plan/keys.h"

namespace millrace::plan {

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
  pairs_ = PairsOf(bits);
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
  for (int i = 0; i < 2 * pairs_; ++i) {
    keys_[i].add = next();
    keys_[i].multiply = next() | 1;  // never zero
  }
}

// The same as Encrypt() with the keys that the constructor makes. The keys do
// not depend on x, so the processor computes them while it waits for the
// products of a round.
template <int kPairs>
uint64_t Permutation::EncryptOnce(uint64_t key, int bits, uint64_t x) {
  const int low_bits = bits / 2;
  const uint64_t low_mask = (uint64_t{1} << low_bits) - 1;
  const uint64_t high_mask = (uint64_t{1} << (bits - low_bits)) - 1;
  uint64_t state = key;
  const auto next = [&state] {
    const uint64_t add = Mix64(state += kGolden64);
    return RoundKey{add, Mix64(state += kGolden64) | 1};
  };
  uint64_t low = x & low_mask;
  uint64_t high = x >> low_bits;
#pragma GCC unroll 8
  for (int pair = 0; pair < kPairs; ++pair) {
    low ^= Round(high, next()) & low_mask;
    high ^= Round(low, next()) & high_mask;
  }
  return high << low_bits | low;
}

uint64_t Permutation::AtOnce(uint64_t key, uint64_t n, uint64_t i) {
  if (n <= kMaxTable) return Permutation(key, n).At(i);
  const int bits = static_cast<int>(std::bit_width(n - 1));
  switch (PairsOf(bits)) {
    case 8:
      i = EncryptOnce<8>(key, bits, i);
      break;
    case 5:
      i = EncryptOnce<5>(key, bits, i);
      break;
    default:
      i = EncryptOnce<4>(key, bits, i);
  }
  // If the result is not below n, the other steps of the cycle.
  return i < n ? i : Permutation(key, n).At(i);
}

}  // namespace millrace::plan
