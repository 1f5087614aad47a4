#include "server/augment/random.h"

namespace millrace::augment {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = kMultiplier0 * counter[0];
    const uint64_t p1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

CounterRandom::CounterRandom(uint64_t sample_key, uint32_t place)
    : key_{static_cast<uint32_t>(sample_key),
           static_cast<uint32_t>(sample_key >> 32)},
      place_(place) {}

uint64_t CounterRandom::Next64() {
  if (used_ == 2) {
    words_ = Philox4x32({block_++, place_, 0, 0}, key_);
    used_ = 0;
  }
  const uint32_t i = 2 * used_++;
  return words_[i] | static_cast<uint64_t>(words_[i + 1]) << 32;
}

double CounterRandom::Uniform() {
  return static_cast<double>(Next64() >> 11) * 0x1.0p-53;
}

uint64_t CounterRandom::Below(uint64_t n) {
  // The high half of a 128-bit product (Lemire's method without rejection).
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next64()) * n) >>
                               64);
}

}  // namespace millrace::augment
