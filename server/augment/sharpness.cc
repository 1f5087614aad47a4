// AdjustSharpness of color_functions.h: a blend with the image smoothed by [1 1
// 1; 1 5 1; 1 1 1] / 13. The smoothed byte is the exact quotient, rounded to
// nearest (there are no ties in thirteenths). BlendStep defines the blend.

#include <algorithm>
#include <cstring>

#include "server/augment/color_functions.h"
#include "server/augment/color_steps.h"

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/sharpness.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

// (sum + 6) * 5042 >> 16 is (sum + 6) / 13 for every sum up to 13 * 255.
constexpr int kThirteenth = 5042;

#if HWY_TARGET == HWY_SCALAR

void SumThreeRows(const uint8_t* above, const uint8_t* row,
                  const uint8_t* below, int64_t n, uint16_t* sums) {
  for (int64_t i = 0; i < n; ++i) {
    sums[i] = static_cast<uint16_t>(above[i] + row[i] + below[i]);
  }
}

void SharpenRow(const uint16_t* sums, const uint8_t* row, int64_t begin,
                int64_t end, int channels, const ColorStep* step,
                uint8_t* out) {
  for (int64_t i = begin; i < end; ++i) {
    const int sum =
        sums[i - channels] + sums[i] + sums[i + channels] + 4 * row[i];
    const int smooth = ((sum + 6) * kThirteenth) >> 16;
    const int own = (row[i] * step->multiplier) >> 8;
    const int part = (smooth * step->other) >> 8;
    const int blend = step->kind == ColorStep::Kind::kLess
                          ? own + part + 1
                          : std::max(0, own - part);
    out[i] = static_cast<uint8_t>(std::min(255, blend >> step->fraction_bits));
  }
}

#else  // SIMD

namespace hn = hwy::HWY_NAMESPACE;

using DWords = hn::ScalableTag<uint16_t>;
using DBytes = hn::Rebind<uint8_t, DWords>;  // half a vector
using VWords = hn::Vec<DWords>;

HWY_INLINE VWords LoadBytes(const uint8_t* from) {
  return hn::PromoteTo(DWords(), hn::LoadU(DBytes(), from));
}

// Reads and writes up to one vector more than n.
void SumThreeRows(const uint8_t* above, const uint8_t* row,
                  const uint8_t* below, int64_t n, uint16_t* sums) {
  const DWords d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const VWords sum =
        hn::Add(hn::Add(LoadBytes(above + i), LoadBytes(row + i)),
                LoadBytes(below + i));
    hn::StoreU(sum, d, sums + i);
  }
}

// Writes up to one vector after `end`.
void SharpenRow(const uint16_t* sums, const uint8_t* row, int64_t begin,
                int64_t end, int channels, const ColorStep* step,
                uint8_t* out) {
  const DWords d;
  const DBytes db;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VWords multiplier = hn::Set(d, step->multiplier);
  const VWords other = hn::Set(d, step->other);
  const VWords thirteenth = hn::Set(d, kThirteenth);
  const bool less = step->kind == ColorStep::Kind::kLess;
  for (int64_t i = begin; i < end; i += lanes) {
    const VWords x = LoadBytes(row + i);
    VWords sum = hn::Add(hn::LoadU(d, sums + i - channels),
                         hn::LoadU(d, sums + i + channels));
    sum = hn::Add(sum, hn::Add(hn::LoadU(d, sums + i), hn::ShiftLeft<2>(x)));
    const VWords smooth = hn::MulHigh(hn::Add(sum, hn::Set(d, 6)), thirteenth);
    const VWords own = hn::MulHigh(hn::ShiftLeft<8>(x), multiplier);
    const VWords part = hn::MulHigh(hn::ShiftLeft<8>(smooth), other);
    VWords blend = less ? hn::Add(hn::Add(own, part), hn::Set(d, 1))
                        : hn::SaturatedSub(own, part);
    blend = hn::Min(hn::ShiftRightSame(blend, step->fraction_bits),
                    hn::Set(d, 255));
    // As signed words: the values are below 256, so no bit is lost.
    const hn::RebindToSigned<DWords> di;
    hn::StoreU(hn::DemoteTo(db, hn::BitCast(di, blend)), db, out + i);
  }
}

#endif  // SIMD

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {
namespace {

HWY_EXPORT(SumThreeRows);
HWY_EXPORT(SharpenRow);

// Bytes of a row in the scratch, with room to read and write after its end.
int64_t PaddedRow(int64_t bytes) { return (bytes + 64 + 63) / 64 * 64; }

}  // namespace

int64_t SharpnessScratchBytes(Size size, int channels) {
  // Three rows, the result, and sums of two bytes each.
  return 6 * PaddedRow(size.width * channels);
}

absl::Status AdjustSharpness(ImageSpan image, double factor,
                             AlignedBuffer& scratch) {
  if (image.height <= 2 || image.width <= 2) return absl::OkStatus();
  const int64_t bytes = image.width * image.channels;
  const int64_t padded = PaddedRow(bytes);
  uint8_t* const memory = scratch.Reserve(static_cast<size_t>(
      SharpnessScratchBytes({image.width, image.height}, image.channels)));
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        "no memory for the rows of a sharpness change");
  }
  uint8_t* above = memory;
  uint8_t* row = memory + padded;
  uint8_t* below = memory + 2 * padded;
  uint8_t* const out = memory + 3 * padded;
  uint16_t* const sums = reinterpret_cast<uint16_t*>(memory + 4 * padded);
  // The kernels compute with the bytes after the rows; the results are
  // discarded.
  std::memset(memory, 0, static_cast<size_t>(6 * padded));
  const ColorStep step = BlendStep(factor);
  std::memcpy(above, image.data, static_cast<size_t>(bytes));
  std::memcpy(row, image.data + image.stride, static_cast<size_t>(bytes));
  for (int64_t y = 1; y + 1 < image.height; ++y) {
    uint8_t* const to = image.data + y * image.stride;
    std::memcpy(below, to + image.stride, static_cast<size_t>(bytes));
    HWY_DYNAMIC_DISPATCH(SumThreeRows)(above, row, below, bytes, sums);
    HWY_DYNAMIC_DISPATCH(SharpenRow)
    (sums, row, image.channels, bytes - image.channels, image.channels, &step,
     out);
    std::memcpy(to + image.channels, out + image.channels,
                static_cast<size_t>(bytes - 2 * image.channels));
    uint8_t* const oldest = above;
    above = row;
    row = below;
    below = oldest;
  }
  return absl::OkStatus();
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
