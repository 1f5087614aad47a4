// FastDivide divides by a number that is known in advance, with a
// multiplication instead of a division. The result is exact for dividends below
// 2^62.
//
// T. Granlund and P. Montgomery, "Division by invariant integers using
// multiplication" (PLDI 1994): with l = ceil(log2 d) and
// m = ceil(2^(62 + l) / d), floor(n / d) = floor(n m / 2^(62 + l)), since m is
// off by less than 2^l / 2^(62 + l) d.
//
// Immutable, thread-safe.
//
//   const FastDivide by_block(block_size);
//   const uint64_t block = by_block(position);

#ifndef MILLRACE_SERVER_PLAN_FAST_DIVIDE_H_
#define MILLRACE_SERVER_PLAN_FAST_DIVIDE_H_

#include <bit>
#include <cstdint>

namespace millrace::plan {

class FastDivide {
 public:
  static constexpr uint64_t kMaxDividend = (uint64_t{1} << 62) - 1;

  // `divisor` is 1 .. 2^62.
  explicit FastDivide(uint64_t divisor)
      : shift_(62 + static_cast<int>(std::bit_width(divisor - 1))),
        multiplier_(static_cast<uint64_t>(
            ((static_cast<unsigned __int128>(1) << shift_) + divisor - 1) /
            divisor)) {}

  // `dividend` is at most kMaxDividend.
  uint64_t operator()(uint64_t dividend) const {
    return static_cast<uint64_t>(
        static_cast<unsigned __int128>(dividend) * multiplier_ >> shift_);
  }

 private:
  int shift_;
  uint64_t multiplier_;  // at most 2^63
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_FAST_DIVIDE_H_
