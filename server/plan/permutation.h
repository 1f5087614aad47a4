// Permutation is a keyed bijection on [0, n), computed at any index in O(1)
// time and memory. Above 256 it is a Feistel network on the smallest power of
// two that holds n, applied repeatedly until the result is below n (less than
// two times on average; Black and Rogaway, "Ciphers with arbitrary finite
// domains", CT-RSA 2002). Up to 256 it is a table made by a Fisher-Yates
// shuffle, because a network with halves of a few bits is visibly not uniform.
//
// Statistical, not cryptographic strength: the order can be computed from the
// key. Immutable after construction, so thread-safe. No allocation.
//
//   const Permutation order(PermutationKey(seed, epoch, n), n);
//   const uint64_t sample = order.At(position);
//   assert(order.Inverse(sample) == position);

#ifndef MILLRACE_SERVER_PLAN_PERMUTATION_H_
#define MILLRACE_SERVER_PLAN_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace millrace::plan {

class Permutation {
 public:
  // The largest domain.
  static constexpr uint64_t kMaxSize = uint64_t{1} << 62;

  // `n` is 1 .. kMaxSize.
  Permutation(uint64_t key, uint64_t n);

  // `i` < size().
  uint64_t At(uint64_t i) const {
    if (n_ <= kMaxTable) return table_.at[i % kMaxTable];
    do {
      i = Encrypt(i);
    } while (i >= n_);
    return i;
  }

  // Permutation(key, n).At(i) for a single call: the round keys are computed
  // while they are used, which takes half of the time.
  static uint64_t AtOnce(uint64_t key, uint64_t n, uint64_t i);

  // Inverse(At(i)) == i.
  uint64_t Inverse(uint64_t i) const {
    if (n_ <= kMaxTable) return table_.inverse[i % kMaxTable];
    do {
      i = Decrypt(i);
    } while (i >= n_);
    return i;
  }

  // A permutation of the family selected by `tweak`, on the same domain: as
  // random as At() of another key, without the cost of a new key. The domain
  // must be larger than kMaxTable.
  uint64_t At(uint64_t i, uint64_t tweak) const {
    do {
      i = Encrypt(i, tweak);
    } while (i >= n_);
    return i;
  }

  uint64_t size() const { return n_; }

  // Max size of a domain with a table.
  static constexpr uint64_t kMaxTable = 256;

 private:
  // Each pair of rounds changes both halves once. Four rounds of random
  // functions make a pseudo-random permutation (Luby and Rackoff 1988) for
  // large halves; small halves collide, so they get more.
  static constexpr int kMaxPairs = 8;

  struct RoundKey {
    uint64_t add;
    uint64_t multiply;
  };

  // Combines both halves of the 128-bit product by xor, so that every bit of x
  // affects the low bits that are used (the "mum" step of wyhash, Wang Yi
  // 2019).
  static uint64_t Round(uint64_t x, const RoundKey& key) {
    const unsigned __int128 product =
        static_cast<unsigned __int128>(x + key.add) * key.multiply;
    return static_cast<uint64_t>(product) ^
           static_cast<uint64_t>(product >> 64);
  }

  // The tweak is added to the input of every round function.
  uint64_t Encrypt(uint64_t x, uint64_t tweak = 0) const {
    uint64_t low = x & low_mask_;
    uint64_t high = x >> low_bits_;
    for (int pair = 0; pair < pairs_; ++pair) {
      low ^= Round(high + tweak, keys_[2 * pair]) & low_mask_;
      high ^= Round(low + tweak, keys_[2 * pair + 1]) & high_mask_;
    }
    return high << low_bits_ | low;
  }

  uint64_t Decrypt(uint64_t x) const {
    uint64_t low = x & low_mask_;
    uint64_t high = x >> low_bits_;
    for (int pair = pairs_ - 1; pair >= 0; --pair) {
      high ^= Round(low, keys_[2 * pair + 1]) & high_mask_;
      low ^= Round(high, keys_[2 * pair]) & low_mask_;
    }
    return high << low_bits_ | low;
  }

  // For a domain above kMaxTable.
  static int PairsOf(int bits) { return bits < 16 ? 8 : bits < 24 ? 5 : 4; }
  template <int kPairs>
  static uint64_t EncryptOnce(uint64_t key, int bits, uint64_t x);

  uint64_t n_;
  int low_bits_;
  int pairs_;
  uint64_t low_mask_;
  uint64_t high_mask_;
  struct Table {
    std::array<uint8_t, kMaxTable> at;
    std::array<uint8_t, kMaxTable> inverse;
  };
  union {
    std::array<RoundKey, 2 * kMaxPairs> keys_;
    Table table_;
  };
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_PERMUTATION_H_
