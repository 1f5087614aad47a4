// Method: one pixel at a time. The bytes of its neighbours are shuffled into
// pairs of left and right, multiplied by a pair of weights and added in one
// instruction. The results of four pixels are packed and stored together.

#include "server/augment/bilinear_run.h"

#include <cstring>

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/bilinear_run.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

// The source's coordinates along the run.
class Cursor {
 public:
  explicit Cursor(const BilinearRun& run)
      : from_(run.from),
        stride_(run.from_stride),
        bits_(run.bits),
        step_x_(run.step_x),
        step_y_(run.step_y),
        x_(run.x),
        y_(run.y) {}

  HWY_INLINE const uint8_t* pixel() const {
    return from_ + (y_ >> bits_) * stride_ + (x_ >> bits_) * 3;
  }
  HWY_INLINE ptrdiff_t stride() const { return stride_; }
  HWY_INLINE BilinearWeights weights() const {
    return WeightsAt(x_, y_, bits_);
  }
  HWY_INLINE void Advance() {
    x_ += step_x_;
    y_ += step_y_;
  }

 private:
  const uint8_t* const from_;
  const ptrdiff_t stride_;
  const int bits_;
  const int64_t step_x_;
  const int64_t step_y_;
  int64_t x_;
  int64_t y_;
};

HWY_INLINE void DrawOne(Cursor& cursor, uint8_t* to) {
  const uint8_t* above = cursor.pixel();
  const uint8_t* below = above + cursor.stride();
  const BilinearWeights w = cursor.weights();
  uint8_t result[3];
  for (int c = 0; c < 3; ++c) {
    const int32_t sum = above[c] * w.w00 + above[c + 3] * w.w01 +
                        below[c] * w.w10 + below[c + 3] * w.w11;
    result[c] = static_cast<uint8_t>((sum + BilinearWeights::kOne / 2) >>
                                     BilinearWeights::kBits);
  }
  std::memcpy(to, result, 3);
  cursor.Advance();
}

#if HWY_TARGET == HWY_SCALAR

void DrawRun(const BilinearRun& run) {
  Cursor cursor(run);
  for (int64_t i = 0; i < run.count; ++i) DrawOne(cursor, run.to + 3 * i);
}

#else  // SIMD

namespace hn = hwy::HWY_NAMESPACE;

using DBytes = hn::Full128<uint8_t>;
using DPairs = hn::Full128<int16_t>;
using DSums = hn::Full128<int32_t>;

constexpr uint8_t kZero = 0x80;

// Red, green and blue of one pixel, in 32 bits each.
HWY_INLINE hn::Vec<DSums> Sum(Cursor& cursor, hn::Vec<DBytes> pairs) {
  const DBytes d8;
  const DPairs d16;
  const DSums d32;
  const uint8_t* above = cursor.pixel();
  const BilinearWeights w = cursor.weights();
  cursor.Advance();
  const auto a =
      hn::BitCast(d16, hn::TableLookupBytesOr0(hn::LoadU(d8, above), pairs));
  const auto b = hn::BitCast(
      d16,
      hn::TableLookupBytesOr0(hn::LoadU(d8, above + cursor.stride()), pairs));
  const auto wa = hn::BitCast(d16, hn::Set(d32, w.w00 | w.w01 << 16));
  const auto wb = hn::BitCast(d16, hn::Set(d32, w.w10 | w.w11 << 16));
  auto even = hn::Set(d32, BilinearWeights::kOne / 2);
  auto odd = hn::Zero(d32);
  even = hn::ReorderWidenMulAccumulate(d32, a, wa, even, odd);
  even = hn::ReorderWidenMulAccumulate(d32, b, wb, even, odd);
  return hn::ShiftRight<BilinearWeights::kBits>(
      hn::RearrangeToOddPlusEven(even, odd));
}

void DrawRun(const BilinearRun& run) {
  const DBytes d8;
  // Left and right of each channel as 16-bit numbers.
  HWY_ALIGN static constexpr uint8_t kPairs[16] = {
      0, kZero, 3, kZero, 1,     kZero, 4,     kZero,
      2, kZero, 5, kZero, kZero, kZero, kZero, kZero};
  // Shuffles four pixels from channel order to pixel order.
  HWY_ALIGN static constexpr uint8_t kPixels[16] = {
      0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, kZero, kZero, kZero, kZero};
  const auto pairs = hn::Load(d8, kPairs);
  const auto pixels = hn::Load(d8, kPixels);
  Cursor cursor(run);
  uint8_t* to = run.to;
  int64_t i = 0;
  // Stores 16 bytes for 12; the next store overwrites the rest.
  for (; i + 6 <= run.count; i += 4, to += 12) {
    const auto s0 = Sum(cursor, pairs);
    const auto s1 = Sum(cursor, pairs);
    const auto s2 = Sum(cursor, pairs);
    const auto s3 = Sum(cursor, pairs);
    const auto channels =
        hn::Or(hn::Or(s0, hn::ShiftLeft<8>(s1)),
               hn::Or(hn::ShiftLeft<16>(s2), hn::ShiftLeft<24>(s3)));
    hn::StoreU(hn::TableLookupBytesOr0(hn::BitCast(d8, channels), pixels), d8,
               to);
  }
  for (; i < run.count; ++i, to += 3) DrawOne(cursor, to);
}

#endif  // SIMD

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(DrawRun);

void DrawBilinearRun(const BilinearRun& run) {
  HWY_DYNAMIC_DISPATCH(DrawRun)(run);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
