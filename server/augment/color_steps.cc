// Method: a vector of each colour is split into its even and odd bytes, which
// are 16-bit words in place. Every step works on three such words, and only the
// load and the store move bytes between lanes. The kind of a step is tested
// once for each vector: the branch is the same for a whole image.
//
// Between the two passes of a contrast the image stays split: the three vectors
// of colours are stored one after the other in place of their pixels.

#include "server/augment/color_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/container/inlined_vector.h"

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/color_steps.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/highway.h"

#ifndef MILLRACE_COLOR_PASS
#define MILLRACE_COLOR_PASS
namespace millrace::augment {
namespace {
enum class Pass {
  kOnly,
  kFirst,   // sums grey values, leaves the image split
  kSecond,  // starts with a split image
};
}  // namespace
}  // namespace millrace::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

// For CPUs without SSE4: the definitions of color_steps.h, pixel by pixel.
struct Pixel {
  int r, g, b;
};

int GreyOf(const Pixel& p) {
  return (2989 * p.r + 5870 * p.g + 1140 * p.b) / 10000;
}

int Weakened(const ColorStep& step, int x) {
  return (((x * step.multiplier) >> 8) + step.offset) >> step.fraction_bits;
}

int Strengthened(const ColorStep& step, int x) {
  const int sum = std::max(0, ((x * step.multiplier) >> 8) - step.offset);
  return std::min(255, sum >> step.fraction_bits);
}

int Blended(const ColorStep& step, int x, int other) {
  const int own = (x * step.multiplier) >> 8;
  const int part = (other * step.other) >> 8;
  return step.kind == ColorStep::Kind::kLess
             ? (own + part + 1) >> step.fraction_bits
             : std::min(255, std::max(0, own - part) >> step.fraction_bits);
}

Pixel Turned(const ColorStep& step, const Pixel& p) {
  const int top = std::max({p.r, p.g, p.b});
  const int bottom = std::min({p.r, p.g, p.b});
  const int range = top - bottom;
  int h = p.r == top   ? p.g - p.b
          : p.g == top ? 2 * range + p.b - p.r
                       : 4 * range + p.r - p.g;
  const int turn = 96 * range;
  h = 16 * h + (h < 0 ? turn : 0);
  h += (range * step.multiplier + 128) >> 8;
  if (h >= turn) h -= turn;
  const int full = 16 * range;
  auto byte = [&](int distance) {
    const int v = 16 * bottom + std::clamp(distance, 0, full);
    return (v + (v >> 8)) >> 4;
  };
  return {byte(std::abs(h - 3 * full) - full),
          byte(2 * full - std::abs(h - 2 * full)),
          byte(2 * full - std::abs(h - 4 * full))};
}

uint64_t StepPixels(uint8_t* row, int64_t pixels, int channels,
                    const ColorStep* steps, size_t count, Pass pass) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < pixels; ++i, row += channels) {
    if (channels == 1) {
      int x = row[0];
      for (size_t s = 0; s < count; ++s) {
        if (steps[s].kind == ColorStep::Kind::kWeaken) {
          x = Weakened(steps[s], x);
        } else if (steps[s].kind == ColorStep::Kind::kStrengthen) {
          x = Strengthened(steps[s], x);
        }
      }
      row[0] = static_cast<uint8_t>(x);
      sum += x;
      continue;
    }
    Pixel p = {row[0], row[1], row[2]};
    for (size_t s = 0; s < count; ++s) {
      const ColorStep& step = steps[s];
      switch (step.kind) {
        case ColorStep::Kind::kWeaken:
          p = {Weakened(step, p.r), Weakened(step, p.g), Weakened(step, p.b)};
          break;
        case ColorStep::Kind::kStrengthen:
          p = {Strengthened(step, p.r), Strengthened(step, p.g),
               Strengthened(step, p.b)};
          break;
        case ColorStep::Kind::kLess:
        case ColorStep::Kind::kMore: {
          const int grey = GreyOf(p);
          p = {Blended(step, p.r, grey), Blended(step, p.g, grey),
               Blended(step, p.b, grey)};
          break;
        }
        case ColorStep::Kind::kHue:
          p = Turned(step, p);
          break;
        case ColorStep::Kind::kGrey:
          p.r = p.g = p.b = GreyOf(p);
          break;
      }
    }
    row[0] = static_cast<uint8_t>(p.r);
    row[1] = static_cast<uint8_t>(p.g);
    row[2] = static_cast<uint8_t>(p.b);
    if (pass == Pass::kFirst) sum += GreyOf(p);
  }
  return sum;
}

#else  // SIMD

namespace hn = hwy::HWY_NAMESPACE;

using DBytes = hn::ScalableTag<uint8_t>;
using DWords = hn::Repartition<uint16_t, DBytes>;
using DInts = hn::Repartition<int16_t, DBytes>;
using DLongs = hn::Repartition<int32_t, DBytes>;
using DFloats = hn::Repartition<float, DBytes>;
using DSums = hn::Repartition<uint64_t, DBytes>;
using VBytes = hn::Vec<DBytes>;
using VWords = hn::Vec<DWords>;
using VInts = hn::Vec<DInts>;

// Words with values of 0 .. 255.
struct Pixels {
  VWords r, g, b;
};

HWY_INLINE VWords Even(VBytes v) {
  const DWords d;
  return hn::And(hn::BitCast(d, v), hn::Set(d, 0x00FF));
}

HWY_INLINE VWords Odd(VBytes v) {
  return hn::ShiftRight<8>(hn::BitCast(DWords(), v));
}

HWY_INLINE VBytes Join(VWords even, VWords odd) {
  return hn::BitCast(DBytes(), hn::Or(even, hn::ShiftLeft<8>(odd)));
}

// (x * factor) >> 8
HWY_INLINE VWords Times(VWords x, VWords factor) {
  return hn::MulHigh(hn::ShiftLeft<8>(x), factor);
}

// (x * factor + 128) >> 8, x from -255 to 255
HWY_INLINE VInts TimesRounded(VInts x, int factor) {
  return hn::MulFixedPoint15(hn::ShiftLeft<7>(x),
                             hn::Set(DInts(), static_cast<int16_t>(factor)));
}

// The weighted sum of floats that hold whole numbers of 0 .. 255, rounded down,
// in the lower bits of the result. The sum is a multiple of 1/10000 and its
// error in float32 is below 1/20000. So it is correct to subtract half of that
// less than a half, and then to round to nearest by adding 2^23 + 2^16.
HWY_INLINE hn::Vec<DLongs> GreyBits(hn::Vec<DLongs> r, hn::Vec<DLongs> g,
                                    hn::Vec<DLongs> b) {
  const DFloats d;
  auto weighted = [&](hn::Vec<DLongs> x, float weight) HWY_ATTR {
    return hn::Mul(hn::ConvertTo(d, x), hn::Set(d, weight));
  };
  auto sum = hn::Add(weighted(b, 0.114f), hn::Set(d, -0.49995f));
  sum = hn::Add(weighted(g, 0.587f), sum);
  sum = hn::Add(weighted(r, 0.2989f), sum);
  return hn::BitCast(DLongs(), hn::Add(sum, hn::Set(d, 8454144.0f)));
}

HWY_INLINE VWords GreyOf(const Pixels& p) {
  const DWords dw;
  const DLongs d;
  const hn::RebindToUnsigned<DLongs> du;
  auto low = [&](VWords x) HWY_ATTR {
    return hn::And(hn::BitCast(d, x), hn::Set(d, 0xFFFF));
  };
  auto high = [&](VWords x) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(du, x)));
  };
  const auto lower = GreyBits(low(p.r), low(p.g), low(p.b));
  const auto upper = GreyBits(high(p.r), high(p.g), high(p.b));
  return hn::BitCast(
      dw, hn::Or(hn::And(lower, hn::Set(d, 0xFF)), hn::ShiftLeft<16>(upper)));
}

HWY_INLINE VWords ToByte(VWords sum, int fraction_bits) {
  return hn::Min(hn::ShiftRightSame(sum, fraction_bits),
                 hn::Set(DWords(), 255));
}

HWY_INLINE VWords Weakened(const ColorStep& step, VWords x) {
  const DWords d;
  const VWords own = Times(x, hn::Set(d, step.multiplier));
  return hn::ShiftRightSame(hn::Add(own, hn::Set(d, step.offset)),
                            step.fraction_bits);
}

HWY_INLINE VWords Strengthened(const ColorStep& step, VWords x) {
  const DWords d;
  const VWords own = Times(x, hn::Set(d, step.multiplier));
  return ToByte(hn::SaturatedSub(own, hn::Set(d, step.offset)),
                step.fraction_bits);
}

HWY_INLINE Pixels Less(const ColorStep& step, const Pixels& p) {
  const DWords d;
  const VWords m = hn::Set(d, step.multiplier);
  const VWords part =
      hn::Add(Times(GreyOf(p), hn::Set(d, step.other)), hn::Set(d, 1));
  return {hn::ShiftRightSame(hn::Add(Times(p.r, m), part), step.fraction_bits),
          hn::ShiftRightSame(hn::Add(Times(p.g, m), part), step.fraction_bits),
          hn::ShiftRightSame(hn::Add(Times(p.b, m), part), step.fraction_bits)};
}

HWY_INLINE Pixels More(const ColorStep& step, const Pixels& p) {
  const DWords d;
  const VWords m = hn::Set(d, step.multiplier);
  const VWords part = Times(GreyOf(p), hn::Set(d, step.other));
  return {ToByte(hn::SaturatedSub(Times(p.r, m), part), step.fraction_bits),
          ToByte(hn::SaturatedSub(Times(p.g, m), part), step.fraction_bits),
          ToByte(hn::SaturatedSub(Times(p.b, m), part), step.fraction_bits)};
}

// bottom + min(distance, full), sixteenths, to a byte.
HWY_INLINE VWords FromSixteenths(VWords bottom, VWords distance, VWords full) {
  const VWords v = hn::Add(bottom, hn::Min(distance, full));
  return hn::ShiftRight<4>(hn::Add(v, hn::ShiftRight<8>(v)));
}

// |a - b|, below 2^15.
HWY_INLINE VWords Distance(VWords a, VWords b) {
  return hn::BitCast(DWords(), hn::Abs(hn::BitCast(DInts(), hn::Sub(a, b))));
}

HWY_INLINE Pixels Turned(const ColorStep& step, const Pixels& p) {
  const DWords dw;
  const DInts di;
  const VWords top = hn::Max(hn::Max(p.r, p.g), p.b);
  const VWords bottom = hn::Min(hn::Min(p.r, p.g), p.b);
  const VWords range = hn::Sub(top, bottom);
  const VWords twice = hn::Add(range, range);
  // Words wrap around: a negative number is larger than any other.
  const VWords of_red = hn::Sub(p.g, p.b);
  const VWords of_green = hn::Add(twice, hn::Sub(p.b, p.r));
  const VWords of_blue = hn::Add(hn::Add(twice, twice), hn::Sub(p.r, p.g));
  VWords h = hn::IfThenElse(hn::Eq(p.g, top), of_green, of_blue);
  h = hn::ShiftLeft<4>(hn::IfThenElse(hn::Eq(p.r, top), of_red, h));
  const VWords full = hn::ShiftLeft<4>(range);
  const VWords full2 = hn::Add(full, full);
  const VWords full4 = hn::Add(full2, full2);
  const VWords turn = hn::Add(full4, full2);
  h = hn::Min(h, hn::Add(h, turn));
  h = hn::Add(h, hn::BitCast(dw, TimesRounded(hn::BitCast(di, range),
                                              step.multiplier)));
  h = hn::Min(h, hn::Sub(h, turn));
  const VWords red = Distance(h, hn::Add(full2, full));
  const VWords green = Distance(h, full2);
  const VWords blue = Distance(h, full4);
  const VWords base = hn::ShiftLeft<4>(bottom);
  return {FromSixteenths(base, hn::SaturatedSub(red, full), full),
          FromSixteenths(base, hn::SaturatedSub(full2, green), full),
          FromSixteenths(base, hn::SaturatedSub(full2, blue), full)};
}

HWY_INLINE void RunStep(const ColorStep& step, Pixels& even, Pixels& odd) {
  switch (step.kind) {
    case ColorStep::Kind::kWeaken:
      even = {Weakened(step, even.r), Weakened(step, even.g),
              Weakened(step, even.b)};
      odd = {Weakened(step, odd.r), Weakened(step, odd.g),
             Weakened(step, odd.b)};
      break;
    case ColorStep::Kind::kStrengthen:
      even = {Strengthened(step, even.r), Strengthened(step, even.g),
              Strengthened(step, even.b)};
      odd = {Strengthened(step, odd.r), Strengthened(step, odd.g),
             Strengthened(step, odd.b)};
      break;
    case ColorStep::Kind::kLess:
      even = Less(step, even);
      odd = Less(step, odd);
      break;
    case ColorStep::Kind::kMore:
      even = More(step, even);
      odd = More(step, odd);
      break;
    case ColorStep::Kind::kHue:
      even = Turned(step, even);
      odd = Turned(step, odd);
      break;
    case ColorStep::Kind::kGrey:
      even.r = even.g = even.b = GreyOf(even);
      odd.r = odd.g = odd.b = GreyOf(odd);
      break;
  }
}

// One vector of pixels.
HWY_INLINE void StepVector(uint8_t* HWY_RESTRICT at, const ColorStep* steps,
                           size_t count, Pass pass, hn::Vec<DSums>& sums) {
  const DBytes d;
  const size_t lanes = hn::Lanes(d);
  VBytes r, g, b;
  if (pass == Pass::kSecond) {
    r = hn::LoadU(d, at);
    g = hn::LoadU(d, at + lanes);
    b = hn::LoadU(d, at + 2 * lanes);
  } else {
    hn::LoadInterleaved3(d, at, r, g, b);
  }
  Pixels even = {Even(r), Even(g), Even(b)};
  Pixels odd = {Odd(r), Odd(g), Odd(b)};
  for (size_t s = 0; s < count; ++s) RunStep(steps[s], even, odd);
  r = Join(even.r, odd.r);
  g = Join(even.g, odd.g);
  b = Join(even.b, odd.b);
  if (pass == Pass::kFirst) {
    hn::StoreU(r, d, at);
    hn::StoreU(g, d, at + lanes);
    hn::StoreU(b, d, at + 2 * lanes);
    const VBytes grey = Join(GreyOf(even), GreyOf(odd));
    sums = hn::Add(sums, hn::SumsOf8(grey));
  } else {
    hn::StoreInterleaved3(r, g, b, d, at);
  }
}

HWY_INLINE void StepGreyVector(uint8_t* HWY_RESTRICT at, const ColorStep* steps,
                               size_t count, hn::Vec<DSums>& sums) {
  const DBytes d;
  VBytes x = hn::LoadU(d, at);
  VWords even = Even(x);
  VWords odd = Odd(x);
  for (size_t s = 0; s < count; ++s) {
    if (steps[s].kind == ColorStep::Kind::kWeaken) {
      even = Weakened(steps[s], even);
      odd = Weakened(steps[s], odd);
    } else if (steps[s].kind == ColorStep::Kind::kStrengthen) {
      even = Strengthened(steps[s], even);
      odd = Strengthened(steps[s], odd);
    }
  }
  x = Join(even, odd);
  hn::StoreU(x, d, at);
  sums = hn::Add(sums, hn::SumsOf8(x));
}

uint64_t Total(hn::Vec<DSums> sums) {
  return hn::GetLane(hn::SumOfLanes(DSums(), sums));
}

// `rest` is a whole vector that begins with `left` pixels. All pixels are
// changed; only the first `left` are counted.
template <int kChannels>
uint64_t StepRest(uint8_t* rest, size_t left, const ColorStep* steps,
                  size_t count, Pass pass) {
  const DBytes d;
  hn::Vec<DSums> sums = hn::Zero(DSums());
  if constexpr (kChannels == 1) {
    StepGreyVector(rest, steps, count, sums);
    return Total(hn::SumsOf8(
        hn::IfThenElseZero(hn::FirstN(d, left), hn::LoadU(d, rest))));
  }
  // Not split in this call, because the remainder is not a whole vector of the
  // image.
  StepVector(rest, steps, count, Pass::kOnly, sums);
  if (pass != Pass::kFirst) return 0;
  VBytes r, g, b;
  hn::LoadInterleaved3(d, rest, r, g, b);
  const VBytes grey = Join(GreyOf({Even(r), Even(g), Even(b)}),
                           GreyOf({Odd(r), Odd(g), Odd(b)}));
  return Total(hn::SumsOf8(hn::IfThenElseZero(hn::FirstN(d, left), grey)));
}

template <int kChannels>
uint64_t StepRow(uint8_t* row, int64_t pixels, const ColorStep* steps,
                 size_t count, Pass pass) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DBytes()));
  const size_t left = static_cast<size_t>(pixels % lanes);
  uint8_t* const end = row + (pixels - static_cast<int64_t>(left)) * kChannels;
  hn::Vec<DSums> sums = hn::Zero(DSums());
  for (uint8_t* at = row; at < end; at += kChannels * lanes) {
    if constexpr (kChannels == 1) {
      StepGreyVector(at, steps, count, sums);
    } else {
      StepVector(at, steps, count, pass, sums);
    }
  }
  uint64_t sum = Total(sums);
  if (left != 0) {
    // Done in a copy, because the bytes after the image may belong to others.
    HWY_ALIGN uint8_t rest[kChannels * HWY_MAX_BYTES] = {};
    std::memcpy(rest, end, kChannels * left);
    sum += StepRest<kChannels>(rest, left, steps, count, pass);
    std::memcpy(end, rest, kChannels * left);
  }
  return sum;
}

uint64_t StepPixels(uint8_t* row, int64_t pixels, int channels,
                    const ColorStep* steps, size_t count, Pass pass) {
  return channels == 3 ? StepRow<3>(row, pixels, steps, count, pass)
                       : StepRow<1>(row, pixels, steps, count, pass);
}

#endif  // SIMD

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {
namespace {

HWY_EXPORT(StepPixels);

// A full turn of the hue, 6 R in sixteenths, over R / 256.
constexpr int kTurn = 6 * 16 * 256;

// The factor times 2^(8 + T), rounded up, in 16 bits.
uint16_t Upwards(double factor, int fraction_bits) {
  return static_cast<uint16_t>(
      std::ceil(factor * static_cast<double>(256 << fraction_bits)));
}

uint16_t Downwards(double factor, int fraction_bits) {
  return static_cast<uint16_t>(factor *
                               static_cast<double>(256 << fraction_bits));
}

// The largest T up to 8 with which `factor` fits in 16 bits.
int FractionBits(double factor) {
  int bits = 8;
  while (bits > 0 &&
         std::ceil(factor * static_cast<double>(256 << bits)) > 65535) {
    --bits;
  }
  return bits;
}

double Bounded(double factor) { return std::min(factor, 65535.0 / 256.0); }

uint64_t Run(ImageSpan image, absl::Span<const ColorStep> steps, Pass pass) {
  // Rows without gaps are processed as one long row.
  if (image.stride == image.width * image.channels) {
    image.width *= image.height;
    image.height = 1;
  }
  uint64_t sum = 0;
  for (int64_t y = 0; y < image.height; ++y) {
    sum += HWY_DYNAMIC_DISPATCH(StepPixels)(image.data + y * image.stride,
                                            image.width, image.channels,
                                            steps.data(), steps.size(), pass);
  }
  return sum;
}

}  // namespace

ColorStep BrightnessStep(double factor) { return ContrastStep(factor, 0); }

ColorStep ContrastStep(double factor, double mean) {
  factor = Bounded(factor);
  const int bits = FractionBits(factor);
  const double offset = (1 - factor) * mean * static_cast<double>(1 << bits);
  ColorStep step;
  step.fraction_bits = static_cast<uint8_t>(bits);
  step.multiplier = Upwards(factor, bits);
  if (factor <= 1) {
    step.kind = ColorStep::Kind::kWeaken;
    step.offset = static_cast<uint16_t>(std::ceil(offset));
  } else {
    step.kind = ColorStep::Kind::kStrengthen;
    step.offset = static_cast<uint16_t>(-offset);
  }
  return step;
}

ColorStep BlendStep(double factor) {
  factor = Bounded(factor);
  ColorStep step;
  int bits = FractionBits(std::max(factor, 1 - factor));
  step.fraction_bits = static_cast<uint8_t>(bits);
  step.multiplier = Upwards(factor, bits);
  if (factor < 1) {
    step.kind = ColorStep::Kind::kLess;
    step.other = Upwards(1 - factor, bits);
  } else {
    step.kind = ColorStep::Kind::kMore;
    step.other = Downwards(factor - 1, bits);
  }
  return step;
}

ColorStep SaturationStep(double factor) { return BlendStep(factor); }

ColorStep HueStep(double shift) {
  ColorStep step;
  step.kind = ColorStep::Kind::kHue;
  const double turn = shift - std::floor(shift);
  step.multiplier =
      static_cast<uint16_t>(static_cast<int>(turn * kTurn + 0.5) % kTurn);
  return step;
}

ColorStep GreyStep() {
  ColorStep step;
  step.kind = ColorStep::Kind::kGrey;
  return step;
}

void ApplyColorSteps(ImageSpan image, absl::Span<const ColorStep> steps) {
  Run(image, steps, Pass::kOnly);
}

void ApplyColorStepsAndContrast(ImageSpan image,
                                absl::Span<const ColorStep> before,
                                double contrast_factor,
                                absl::Span<const ColorStep> after) {
  if (image.height == 0 || image.width == 0) return;
  const uint64_t sum = Run(image, before, Pass::kFirst);
  const double mean = static_cast<double>(sum) /
                      static_cast<double>(image.height * image.width);
  absl::InlinedVector<ColorStep, 8> steps = {
      ContrastStep(contrast_factor, mean)};
  steps.insert(steps.end(), after.begin(), after.end());
  Run(image, steps, Pass::kSecond);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
