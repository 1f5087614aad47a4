// Method: with d = a - b the two results are b + t and a - t', where t =
// floor((share * d + 2^15) / 2^16). The product needs 25 bits; its two halves
// come from a high and a low multiplication of 16-bit lanes. A share of 2^15 or
// more is a negative 16-bit factor, so the high half is too small by d. t'
// differs from t if the fraction is exactly one half, because both results
// round it up.

#include "server/augment/mix_pixels.h"

#include <algorithm>
#include <cstring>

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/mix_pixels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

uint8_t MixByte(uint8_t a, uint8_t b, int32_t share) {
  return static_cast<uint8_t>(b + ((share * (a - b) + 32768) >> 16));
}

// kBoth: `b` is written, too; otherwise it is only read. share is 1 .. 65535.
template <bool kBoth>
void Mix(uint8_t* HWY_RESTRICT a, uint8_t* HWY_RESTRICT b, int64_t bytes,
         uint32_t share) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const hn::RebindToUnsigned<decltype(d16)> du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d16));
  const auto factor = hn::Set(d16, static_cast<int16_t>(share));
  const auto wrapped = hn::Set(d16, share >= 32768 ? -1 : 0);
  const auto half = hn::Set(d16, static_cast<int16_t>(-32768));
  for (; i + lanes <= bytes; i += lanes) {
    const auto va = hn::PromoteTo(d16, hn::LoadU(d8, a + i));
    const auto vb = hn::PromoteTo(d16, hn::LoadU(d8, b + i));
    const auto d = hn::Sub(va, vb);
    const auto low = hn::Mul(d, factor);
    const auto high = hn::Add(hn::MulHigh(d, factor), hn::And(d, wrapped));
    const auto carry =
        hn::BitCast(d16, hn::ShiftRight<15>(hn::BitCast(du16, low)));
    const auto t = hn::Add(high, carry);
    hn::StoreU(hn::DemoteTo(d8, hn::Add(vb, t)), d8, a + i);
    if (kBoth) {
      const auto tie = hn::VecFromMask(d16, hn::Eq(low, half));  // -1
      hn::StoreU(hn::DemoteTo(d8, hn::Sub(va, hn::Add(t, tie))), d8, b + i);
    }
  }
#endif
  for (; i < bytes; ++i) {
    const uint8_t x = a[i];
    const uint8_t y = b[i];
    a[i] = MixByte(x, y, static_cast<int32_t>(share));
    if (kBoth) b[i] = MixByte(y, x, static_cast<int32_t>(share));
  }
}

void MixBoth(uint8_t* a, uint8_t* b, int64_t bytes, uint32_t share) {
  Mix<true>(a, b, bytes, share);
}
void MixOne(uint8_t* a, const uint8_t* b, int64_t bytes, uint32_t share) {
  Mix<false>(a, const_cast<uint8_t*>(b), bytes, share);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(MixBoth);
HWY_EXPORT(MixOne);

void MixRows(uint8_t* a, uint8_t* b, int64_t bytes, uint32_t share) {
  if (share >= BatchMix::kOne) return;
  if (share == 0) {
    std::swap_ranges(a, a + bytes, b);
    return;
  }
  HWY_DYNAMIC_DISPATCH(MixBoth)(a, b, bytes, share);
}

void MixRow(uint8_t* a, const uint8_t* partner, int64_t bytes, uint32_t share) {
  if (share >= BatchMix::kOne) return;
  if (share == 0) {
    std::memcpy(a, partner, bytes);
    return;
  }
  HWY_DYNAMIC_DISPATCH(MixOne)(a, partner, bytes, share);
}

void SwapBoxes(uint8_t* a, uint8_t* b, int64_t row_bytes, int64_t channels,
               const BatchMix& mix) {
  if (mix.right <= mix.left) return;
  const int64_t bytes = (mix.right - mix.left) * channels;
  for (int64_t y = mix.top; y < mix.bottom; ++y) {
    const int64_t at = y * row_bytes + mix.left * channels;
    std::swap_ranges(a + at, a + at + bytes, b + at);
  }
}

void CopyBox(uint8_t* a, const uint8_t* partner, int64_t row_bytes,
             int64_t channels, const BatchMix& mix) {
  if (mix.right <= mix.left) return;
  const int64_t bytes = (mix.right - mix.left) * channels;
  for (int64_t y = mix.top; y < mix.bottom; ++y) {
    const int64_t at = y * row_bytes + mix.left * channels;
    std::memcpy(a + at, partner + at, bytes);
  }
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
