// Posterize, Solarize, AutoContrast and Equalize of color_functions.h: each new
// byte depends only on the old byte and its channel. AutoContrast and Equalize,
// which depend on the whole image, first build a table of 256 bytes for each
// channel.
//
// A SIMD lookup in a table takes sixteen shuffles, one for each upper half of
// the byte: every shuffle gives zero for the other bytes.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "server/augment/color_functions.h"

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/tone_curve.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/highway.h"

#ifndef MILLRACE_TONE_TABLES
#define MILLRACE_TONE_TABLES
namespace millrace::augment {
namespace {
// One table for each channel.
struct ToneTables {
  alignas(64) uint8_t of[3][256];
};
}  // namespace
}  // namespace millrace::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

void MaskBytes(uint8_t* row, int64_t n, uint8_t mask) {
  for (int64_t i = 0; i < n; ++i) row[i] &= mask;
}

void InvertFrom(uint8_t* row, int64_t n, uint8_t threshold) {
  for (int64_t i = 0; i < n; ++i) {
    if (row[i] >= threshold) row[i] = static_cast<uint8_t>(255 - row[i]);
  }
}

void LookUp(uint8_t* row, int64_t pixels, int channels,
            const ToneTables* tables) {
  for (int64_t i = 0; i < pixels; ++i, row += channels) {
    for (int c = 0; c < channels; ++c) row[c] = tables->of[c][row[c]];
  }
}

void Extremes(const uint8_t* row, int64_t pixels, int channels, uint8_t* lowest,
              uint8_t* highest) {
  for (int64_t i = 0; i < pixels; ++i, row += channels) {
    for (int c = 0; c < channels; ++c) {
      lowest[c] = std::min(lowest[c], row[c]);
      highest[c] = std::max(highest[c], row[c]);
    }
  }
}

#else  // SIMD

namespace hn = hwy::HWY_NAMESPACE;

using DBytes = hn::ScalableTag<uint8_t>;
using VBytes = hn::Vec<DBytes>;

// Calls `change` with whole vectors of the n bytes. The remainder is changed in
// a copy, because the bytes after it may belong to others.
template <class Change>
HWY_INLINE void ForVectors(uint8_t* row, int64_t n, Change change) {
  const DBytes d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(change(hn::LoadU(d, row + i)), d, row + i);
  }
  if (i == n) return;
  HWY_ALIGN uint8_t rest[HWY_MAX_BYTES] = {};
  std::memcpy(rest, row + i, static_cast<size_t>(n - i));
  hn::Store(change(hn::Load(d, rest)), d, rest);
  std::memcpy(row + i, rest, static_cast<size_t>(n - i));
}

void MaskBytes(uint8_t* row, int64_t n, uint8_t mask) {
  const VBytes vmask = hn::Set(DBytes(), mask);
  ForVectors(row, n, [&](VBytes x) HWY_ATTR { return hn::And(x, vmask); });
}

void InvertFrom(uint8_t* row, int64_t n, uint8_t threshold) {
  const VBytes lowest = hn::Set(DBytes(), threshold);
  ForVectors(row, n, [&](VBytes x) HWY_ATTR {
    return hn::IfThenElse(hn::Eq(hn::Max(x, lowest), x), hn::Not(x), x);
  });
}

HWY_INLINE VBytes InTable(const uint8_t* table, VBytes x) {
  const DBytes d;
  const VBytes bias = hn::Set(d, 0x70);
  VBytes result = hn::Zero(d);
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) {
    // 0x70 to 0x7F for the bytes of this part, above 0x7F for the others.
    VBytes index = hn::SaturatedAdd(
        hn::Xor(x, hn::Set(d, static_cast<uint8_t>(16 * k))), bias);
#if !HWY_ARCH_X86 || HWY_TARGET == HWY_EMU128
    // x86's shuffle uses only bits 0 to 3 and 7; other shuffles use all bits.
    index = hn::And(index, hn::Set(d, 0x8F));
#endif
    result = hn::Or(result, hn::TableLookupBytesOr0(
                                hn::LoadDup128(d, table + 16 * k), index));
  }
  return result;
}

void LookUp(uint8_t* row, int64_t pixels, int channels,
            const ToneTables* tables) {
  if (channels == 1) {
    ForVectors(row, pixels,
               [&](VBytes x) HWY_ATTR { return InTable(tables->of[0], x); });
    return;
  }
  const DBytes d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto change = [&](uint8_t* at) HWY_ATTR {
    VBytes r, g, b;
    hn::LoadInterleaved3(d, at, r, g, b);
    hn::StoreInterleaved3(InTable(tables->of[0], r), InTable(tables->of[1], g),
                          InTable(tables->of[2], b), d, at);
  };
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) change(row + 3 * i);
  if (i == pixels) return;
  HWY_ALIGN uint8_t rest[3 * HWY_MAX_BYTES] = {};
  const size_t left = static_cast<size_t>(3 * (pixels - i));
  std::memcpy(rest, row + 3 * i, left);
  change(rest);
  std::memcpy(row + 3 * i, rest, left);
}

void Extremes(const uint8_t* row, int64_t pixels, int channels, uint8_t* lowest,
              uint8_t* highest) {
  // Vectors at the three places of a run of three vectors. Lane j of vector k
  // holds the channel (k * lanes + j) % channels.
  const DBytes d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = pixels * channels;
  VBytes low[3] = {hn::Set(d, 255), hn::Set(d, 255), hn::Set(d, 255)};
  VBytes high[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 3 * lanes <= n; i += 3 * lanes) {
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k) {
      const VBytes x = hn::LoadU(d, row + i + k * lanes);
      low[k] = hn::Min(low[k], x);
      high[k] = hn::Max(high[k], x);
    }
  }
  HWY_ALIGN uint8_t lows[3 * HWY_MAX_BYTES];
  HWY_ALIGN uint8_t highs[3 * HWY_MAX_BYTES];
  for (int k = 0; k < 3; ++k) {
    hn::Store(low[k], d, lows + k * lanes);
    hn::Store(high[k], d, highs + k * lanes);
  }
  auto count = [&](int c, uint8_t a, uint8_t b) {
    lowest[c] = std::min(lowest[c], a);
    highest[c] = std::max(highest[c], b);
  };
  if (i != 0) {
    for (int64_t j = 0; j < 3 * lanes; ++j) {
      count(static_cast<int>(j % channels), lows[j], highs[j]);
    }
  }
  for (; i < n; ++i) count(static_cast<int>(i % channels), row[i], row[i]);
}

#endif  // SIMD

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {
namespace {

HWY_EXPORT(MaskBytes);
HWY_EXPORT(InvertFrom);
HWY_EXPORT(LookUp);
HWY_EXPORT(Extremes);

// Rows without gaps are processed as one long row.
ImageSpan LongRows(ImageSpan image) {
  if (image.stride == image.width * image.channels) {
    image.width *= image.height;
    image.height = 1;
    image.stride = image.width * image.channels;
  }
  return image;
}

// Number of occurrences of each byte value in each channel. Two counters for
// each value, used by alternate pixels, so that a counter is not incremented
// twice in succession.
struct Histogram {
  uint32_t turns[2][3][256] = {};

  template <int kChannels>
  void Add(const uint8_t* row, int64_t pixels) {
    for (int64_t i = 0; i + 1 < pixels; i += 2, row += 2 * kChannels) {
      for (int c = 0; c < kChannels; ++c) {
        ++turns[0][c][row[c]];
        ++turns[1][c][row[kChannels + c]];
      }
    }
    if (pixels % 2 != 0) {
      for (int c = 0; c < kChannels; ++c) ++turns[0][c][row[c]];
    }
  }
  int64_t count(int channel, int value) const {
    return int64_t{turns[0][channel][value]} + turns[1][channel][value];
  }
};

}  // namespace

void Posterize(ImageSpan image, int bits) {
  image = LongRows(image);
  const int kept = std::clamp(bits, 0, 8);
  const uint8_t mask = static_cast<uint8_t>(0xFF << (8 - kept));
  for (int64_t y = 0; y < image.height; ++y) {
    HWY_DYNAMIC_DISPATCH(MaskBytes)
    (image.data + y * image.stride, image.width * image.channels, mask);
  }
}

void Solarize(ImageSpan image, double threshold) {
  if (threshold > 255) return;
  image = LongRows(image);
  const uint8_t lowest =
      static_cast<uint8_t>(std::ceil(std::max(threshold, 0.0)));
  for (int64_t y = 0; y < image.height; ++y) {
    HWY_DYNAMIC_DISPATCH(InvertFrom)
    (image.data + y * image.stride, image.width * image.channels, lowest);
  }
}

void AutoContrast(ImageSpan image) {
  image = LongRows(image);
  uint8_t lowest[3] = {255, 255, 255};
  uint8_t highest[3] = {0, 0, 0};
  for (int64_t y = 0; y < image.height; ++y) {
    HWY_DYNAMIC_DISPATCH(Extremes)
    (image.data + y * image.stride, image.width, image.channels, lowest,
     highest);
  }
  ToneTables tables;
  for (int c = 0; c < image.channels; ++c) {
    // torchvision's float32 arithmetic, step by step.
    const bool flat = highest[c] <= lowest[c];
    const float from = flat ? 0.0f : static_cast<float>(lowest[c]);
    const float scale = flat ? 1.0f
                             : static_cast<float>(highest[c] - lowest[c]) *
                                   static_cast<float>(1.0 / 255.0);
    for (int x = 0; x < 256; ++x) {
      const float y = (static_cast<float>(x) - from) / scale;
      tables.of[c][x] = static_cast<uint8_t>(std::clamp(y, 0.0f, 255.0f));
    }
  }
  for (int64_t y = 0; y < image.height; ++y) {
    HWY_DYNAMIC_DISPATCH(LookUp)
    (image.data + y * image.stride, image.width, image.channels, &tables);
  }
}

void Equalize(ImageSpan image) {
  const int64_t pixels = image.height * image.width;
  image = LongRows(image);
  Histogram histogram;
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* const row = image.data + y * image.stride;
    image.channels == 3 ? histogram.Add<3>(row, image.width)
                        : histogram.Add<1>(row, image.width);
  }
  ToneTables tables;
  for (int c = 0; c < image.channels; ++c) {
    int brightest = 255;
    while (brightest > 0 && histogram.count(c, brightest) == 0) --brightest;
    const int64_t step = (pixels - histogram.count(c, brightest)) / 255;
    int64_t darker = 0;
    for (int x = 0; x < 256; ++x) {
      const int64_t level = step == 0 ? x
                            : x == 0  ? 0
                                      : (darker + step / 2) / step;
      tables.of[c][x] = static_cast<uint8_t>(std::min<int64_t>(level, 255));
      darker += histogram.count(c, x);
    }
  }
  for (int64_t y = 0; y < image.height; ++y) {
    HWY_DYNAMIC_DISPATCH(LookUp)
    (image.data + y * image.stride, image.width, image.channels, &tables);
  }
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
