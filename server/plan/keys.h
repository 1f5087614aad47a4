// Keys: 64-bit numbers that determine an order or the random choices of a
// sample. They depend only on the values listed here, not on the spec's hash, a
// dataset's name or format, a shard, a rank or a thread.
//
//   permutation key = f(seed, epoch, N)
//   subset key      = f(subset seed, N)
//   sample key      = f(seed, epoch, source, logical index, visit)
//   batch key       = f(seed, epoch, step)
//
// For a weighted mixture (server/plan/source_schedule.h) also:
//
//   slots key       = f(seed, epoch, block), of the order within a block
//   source seed     = f(seed, source): replaces the seed in the orders of the
//                     visits to the source; the number of the visit replaces
//                     the epoch
//
// Not a cryptographic hash. Pure functions, safe from any thread.
//
//   const KeyHash epoch_key = KeyHash(KeyDomain::kSample).Add(seed).Add(epoch);
//   const uint64_t key = epoch_key.Add(source).Add(index).Add(visit).value();

#ifndef MILLRACE_SERVER_PLAN_KEYS_H_
#define MILLRACE_SERVER_PLAN_KEYS_H_

#include <cstdint>

namespace millrace::plan {

// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit
// reaches every output bit. Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators" (OOPSLA 2014); the constants are David
// Stafford's "Mix13" ("Better bit mixing", 2011).
inline constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// 2^64 divided by the golden ratio, made odd: SplitMix64's increment.
inline constexpr uint64_t kGolden64 = 0x9e3779b97f4a7c15u;

// The purpose of a key: keys of different purposes are independent of each
// other.
enum class KeyDomain : uint64_t {
  kPermutation = 1,
  kSubset = 2,
  kSample = 3,
  kBlock = 4,
  kWindow = 5,
  kBatch = 6,
  kSlots = 7,
  kSource = 8,
  kSubsetRuns = 9,
};

// Absorbs numbers one after the other:
//   h0 = Mix64(golden * domain),  h' = Mix64(golden + (h ^ Mix64(x + golden))).
// For the same previous numbers this is a bijection of x: two samples of one
// epoch never share a key because of their index.
class KeyHash {
 public:
  explicit constexpr KeyHash(KeyDomain domain)
      : h_(Mix64(kGolden64 * static_cast<uint64_t>(domain))) {}

  [[nodiscard]] constexpr KeyHash Add(uint64_t x) const {
    return KeyHash(Mix64(kGolden64 + (h_ ^ Mix64(x + kGolden64))));
  }

  constexpr uint64_t value() const { return h_; }

 private:
  explicit constexpr KeyHash(uint64_t h) : h_(h) {}
  uint64_t h_;
};

inline constexpr uint64_t PermutationKey(uint64_t seed, uint64_t epoch,
                                         uint64_t n) {
  return KeyHash(KeyDomain::kPermutation).Add(seed).Add(epoch).Add(n).value();
}

// The key of a subset's cut. It does not depend on the spec's seed and the
// epoch, so a sample stays in its cut in all epochs.
inline constexpr uint64_t SubsetKey(uint64_t subset_seed, uint64_t n) {
  return KeyHash(KeyDomain::kSubset).Add(subset_seed).Add(n).value();
}

// The key of a cut of runs of `unit` neighbours.
inline constexpr uint64_t SubsetRunsKey(uint64_t subset_seed, uint64_t n,
                                        uint64_t unit) {
  return KeyHash(KeyDomain::kSubsetRuns)
      .Add(subset_seed)
      .Add(n)
      .Add(unit)
      .value();
}

inline constexpr uint64_t SourceSeed(uint64_t seed, uint64_t source) {
  return KeyHash(KeyDomain::kSource).Add(seed).Add(source).value();
}

inline constexpr uint64_t SampleKey(uint64_t seed, uint64_t epoch,
                                    uint64_t source, uint64_t index,
                                    uint64_t visit) {
  return KeyHash(KeyDomain::kSample)
      .Add(seed)
      .Add(epoch)
      .Add(source)
      .Add(index)
      .Add(visit)
      .value();
}

// The key of draws for a global batch; the same on all ranks.
inline constexpr uint64_t BatchKey(uint64_t seed, uint64_t epoch,
                                   uint64_t step) {
  return KeyHash(KeyDomain::kBatch).Add(seed).Add(epoch).Add(step).value();
}

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_KEYS_H_
