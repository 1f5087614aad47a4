// CounterRandom is the source of all random choices of augmentations. It is a
// counter-based generator: a draw is a function of only (sample key, place of
// the operation in the spec, number of the draw), not of threads, order or
// earlier samples.
//
// It is Philox4x32-10 of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC'11. Integer arithmetic only: the same
// values on every CPU. Not for cryptography.
//
// A value type; one thread at a time.
//
//   CounterRandom random(sample_key, place);
//   double u = random.Uniform();            // [0, 1)
//   uint64_t left = random.Below(100);      // 0 .. 99

#ifndef MILLRACE_SERVER_AUGMENT_RANDOM_H_
#define MILLRACE_SERVER_AUGMENT_RANDOM_H_

#include <array>
#include <cstdint>

namespace millrace::augment {

// One block of Philox4x32-10.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

class CounterRandom {
 public:
  CounterRandom(uint64_t sample_key, uint32_t place);

  uint64_t Next64();

  // Uniform on [0, 1), a multiple of 2^-53.
  double Uniform();

  // Uniform on [low, high): low + (high - low) * Uniform().
  double Uniform(double low, double high) {
    return low + (high - low) * Uniform();
  }

  // Uniform on 0 .. n - 1; n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n);

 private:
  const std::array<uint32_t, 2> key_;
  const uint32_t place_;
  uint32_t block_ = 0;
  uint32_t used_ = 2;  // of the two 64-bit words of a block
  std::array<uint32_t, 4> words_{};
};

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_RANDOM_H_
