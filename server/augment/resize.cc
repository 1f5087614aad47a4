// Method: blocks of 64 output rows. Strips of source columns are summed along y
// into a tile of bytes. The tile is transposed, so that the pass along x uses
// the same kernel as the one along y: whole vectors of pixels of one column,
// times one weight. This needs no gather and no shuffle for any number of
// channels. The result is transposed back into the rows of the output.

#include "server/augment/resize.h"

#include <algorithm>
#include <cstring>

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/resize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlockRows = 64;  // lanes of a transposed column
constexpr int64_t kStripBytes = 256;
constexpr int64_t kColumnPixels = 16;  // of the output, between transposes
constexpr int32_t kMaxNarrowTaps = 128;

// For many taps: computes to[i] for i in [0, n), n at most kStripBytes.
void WideSum(const uint8_t* HWY_RESTRICT from, ptrdiff_t tap_stride,
             const uint16_t* HWY_RESTRICT weights, int32_t taps, int64_t n,
             uint8_t* HWY_RESTRICT to) {
  uint32_t sums[kStripBytes];
  for (int64_t i = 0; i < n; ++i) sums[i] = 32768;
  for (int32_t k = 0; k < taps; ++k) {
    const uint8_t* HWY_RESTRICT row = from + k * tap_stride;
    const uint32_t weight = weights[k];
    for (int64_t i = 0; i < n; ++i) sums[i] += row[i] * weight;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(sums[i] >> 16);
}

#if HWY_TARGET == HWY_SCALAR

// For CPUs without SSE4: the same sums, byte by byte.
void SumRow(const uint8_t* HWY_RESTRICT from, ptrdiff_t stride,
            const uint16_t* HWY_RESTRICT weights, int32_t taps, int64_t n,
            uint8_t* HWY_RESTRICT to) {
  if (taps > kMaxNarrowTaps) {
    WideSum(from, stride, weights, taps, n, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint32_t sum = 128 + taps / 2;
    for (int32_t k = 0; k < taps; ++k) {
      sum += (uint32_t{from[i + k * stride]} * weights[k]) >> 8;
    }
    to[i] = static_cast<uint8_t>(sum >> 8);
  }
}

template <int kChannels>
void SumColumns(const uint8_t* HWY_RESTRICT from,
                const uint16_t* HWY_RESTRICT weights, int32_t taps,
                int64_t rows, uint8_t* HWY_RESTRICT to) {
  for (int c = 0; c < kChannels; ++c) {
    SumRow(from + c * kBlockRows, kChannels * kBlockRows, weights, taps, rows,
           to + c * kBlockRows);
  }
}

void TileToColumns(const uint8_t* HWY_RESTRICT tile, int64_t n, int64_t rows,
                   uint8_t* HWY_RESTRICT columns) {
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      columns[c * kBlockRows + r] = tile[r * kStripBytes + c];
    }
  }
}

void ColumnsToOut(const uint8_t* HWY_RESTRICT columns, int64_t n, int64_t rows,
                  uint8_t* HWY_RESTRICT out, ptrdiff_t out_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      out[r * out_stride + c] = columns[c * kBlockRows + r];
    }
  }
}

#else  // SIMD

using DBytes = hn::ScalableTag<uint8_t>;
using DWords = hn::Repartition<uint16_t, DBytes>;
using VBytes = hn::Vec<DBytes>;
using VWords = hn::Vec<DWords>;

// The weighted sum of bytes. Even and odd lanes are 16-bit words with 8
// fraction bits, so no lane moves.
struct Sum {
  VWords even;
  VWords odd;
};

HWY_INLINE Sum BeginSum(int32_t taps) {
  const DWords dw;
  const VWords half = hn::Set(dw, static_cast<uint16_t>(128 + taps / 2));
  return {half, half};
}

HWY_INLINE void AddTap(Sum& sum, const uint8_t* HWY_RESTRICT from,
                       VWords weight) {
  const DBytes db;
  const DWords dw;
  const VWords x = hn::BitCast(dw, hn::LoadU(db, from));
  const VWords odd = hn::And(x, hn::Set(dw, 0xFF00));
  sum.even = hn::Add(sum.even, hn::MulHigh(hn::ShiftLeft<8>(x), weight));
  sum.odd = hn::Add(sum.odd, hn::MulHigh(odd, weight));
}

HWY_INLINE void StoreSum(const Sum& sum, uint8_t* HWY_RESTRICT to) {
  const DBytes db;
  const DWords dw;
  const VWords odd = hn::And(sum.odd, hn::Set(dw, 0xFF00));
  hn::StoreU(hn::BitCast(db, hn::Or(hn::ShiftRight<8>(sum.even), odd)), db, to);
}

// Computes bytes [0, n) of one output row of a strip, n at most kStripBytes.
// Reads and writes up to a vector more.
HWY_INLINE void SumRow(const uint8_t* HWY_RESTRICT from, ptrdiff_t stride,
                       const uint16_t* HWY_RESTRICT weights, int32_t taps,
                       int64_t n, uint8_t* HWY_RESTRICT to) {
  if (HWY_UNLIKELY(taps > kMaxNarrowTaps)) {
    WideSum(from, stride, weights, taps, n, to);
    return;
  }
  const DWords dw;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DBytes()));
  int64_t i = 0;
  for (; i + 3 * lanes < n; i += 4 * lanes) {
    Sum s0 = BeginSum(taps), s1 = s0, s2 = s0, s3 = s0;
    const uint8_t* HWY_RESTRICT row = from + i;
    for (int32_t k = 0; k < taps; ++k, row += stride) {
      const VWords weight = hn::Set(dw, weights[k]);
      AddTap(s0, row, weight);
      AddTap(s1, row + lanes, weight);
      AddTap(s2, row + 2 * lanes, weight);
      AddTap(s3, row + 3 * lanes, weight);
    }
    StoreSum(s0, to + i);
    StoreSum(s1, to + i + lanes);
    StoreSum(s2, to + i + 2 * lanes);
    StoreSum(s3, to + i + 3 * lanes);
  }
  for (; i < n; i += lanes) {
    Sum s = BeginSum(taps);
    const uint8_t* HWY_RESTRICT row = from + i;
    for (int32_t k = 0; k < taps; ++k, row += stride) {
      AddTap(s, row, hn::Set(dw, weights[k]));
    }
    StoreSum(s, to + i);
  }
}

// Computes one output pixel of `rows` rows: kChannels transposed columns.
template <int kChannels>
HWY_INLINE void SumColumns(const uint8_t* HWY_RESTRICT from,
                           const uint16_t* HWY_RESTRICT weights, int32_t taps,
                           int64_t rows, uint8_t* HWY_RESTRICT to) {
  constexpr ptrdiff_t kTapStride = kChannels * kBlockRows;
  if (HWY_UNLIKELY(taps > kMaxNarrowTaps)) {
    WideSum(from, kTapStride, weights, taps, kTapStride, to);
    return;
  }
  const DWords dw;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DBytes()));
  for (int64_t i = 0; i < rows; i += lanes) {
    const uint8_t* HWY_RESTRICT column = from + i;
    Sum s0 = BeginSum(taps), s1 = s0, s2 = s0;
    for (int32_t k = 0; k < taps; ++k, column += kTapStride) {
      const VWords weight = hn::Set(dw, weights[k]);
      AddTap(s0, column, weight);
      if constexpr (kChannels == 3) {
        AddTap(s1, column + kBlockRows, weight);
        AddTap(s2, column + 2 * kBlockRows, weight);
      }
    }
    StoreSum(s0, to + i);
    if constexpr (kChannels == 3) {
      StoreSum(s1, to + i + kBlockRows);
      StoreSum(s2, to + i + 2 * kBlockRows);
    }
  }
}

// A transposition works on 16 x 16 bytes in each 128-bit part of a vector, one
// or two parts at a time.
using DTile = hn::CappedTag<uint8_t, 32>;
using VTile = hn::Vec<DTile>;

template <class DLane>
HWY_INLINE void InterleavePair(DLane d, VTile a, VTile b, VTile& low,
                               VTile& high) {
  const DTile dt;
  const auto x = hn::BitCast(d, a);
  const auto y = hn::BitCast(d, b);
  low = hn::BitCast(dt, hn::InterleaveLower(d, x, y));
  high = hn::BitCast(dt, hn::InterleaveUpper(d, x, y));
}

// The loops are unrolled so that the rows stay in registers.
//
// v[r] holds 16 bytes of row r; afterwards v[c] holds the 16 rows of byte c.
HWY_INLINE void Transpose16(VTile (&v)[16]) {
  const DTile d8;
  const hn::Repartition<uint16_t, DTile> d16;
  const hn::Repartition<uint32_t, DTile> d32;
  const hn::Repartition<uint64_t, DTile> d64;
  VTile a[16];
  // Each round interleaves rows that are 8 apart. After four rounds with
  // growing lanes, the reversed index is in its final order.
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    InterleavePair(d8, v[2 * i], v[2 * i + 1], a[i], a[i + 8]);
  }
  // a[i]: bytes 0-7 of rows 2i, 2i+1; a[i+8]: bytes 8-15.
  VTile b[16];
#pragma GCC unroll 16
  for (int half = 0; half < 16; half += 8) {
#pragma GCC unroll 16
    for (int i = 0; i < 4; ++i) {
      InterleavePair(d16, a[half + 2 * i], a[half + 2 * i + 1], b[half + i],
                     b[half + i + 4]);
    }
  }
  // b[8h + 4q + i]: bytes 8h + 4q .. + 3 of rows 4i .. 4i + 3.
#pragma GCC unroll 16
  for (int quarter = 0; quarter < 16; quarter += 4) {
#pragma GCC unroll 16
    for (int i = 0; i < 2; ++i) {
      InterleavePair(d32, b[quarter + 2 * i], b[quarter + 2 * i + 1],
                     a[quarter + i], a[quarter + i + 2]);
    }
  }
  // a[4q + 2p + i]: bytes 4q + 2p, + 1 of rows 8i .. 8i + 7.
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; pair += 2) {
    InterleavePair(d64, a[pair], a[pair + 1], v[pair], v[pair + 1]);
  }
}

HWY_INLINE void StoreParts(VTile v, uint8_t* HWY_RESTRICT first,
                           uint8_t* HWY_RESTRICT second) {
  const hn::Full128<uint8_t> d128;
#if HWY_MAX_BYTES >= 32
  hn::StoreU(hn::LowerHalf(d128, v), d128, first);
  hn::StoreU(hn::UpperHalf(d128, v), d128, second);
#else
  (void)second;
  hn::StoreU(v, d128, first);
#endif
}

// Transposes bytes [0, n) of `rows` rows of a tile to n columns of kBlockRows
// rows. Works on 16 rows and up to 32 bytes at a time; both buffers have room
// for that.
void TileToColumns(const uint8_t* HWY_RESTRICT tile, int64_t n, int64_t rows,
                   uint8_t* HWY_RESTRICT columns) {
  const DTile d;
  constexpr int64_t kLanes = hn::MaxLanes(DTile());
  for (int64_t r = 0; r < rows; r += 16) {
    for (int64_t c = 0; c < n; c += kLanes) {
      VTile v[16];
      const uint8_t* HWY_RESTRICT from = tile + r * kStripBytes + c;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) v[i] = hn::LoadU(d, from + i * kStripBytes);
      Transpose16(v);
      uint8_t* HWY_RESTRICT to = columns + c * kBlockRows + r;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        StoreParts(v[i], to + i * kBlockRows, to + (i + 16) * kBlockRows);
      }
    }
  }
}

// Transposes n columns of kBlockRows rows to exactly bytes [0, n) of the first
// `rows` output rows. The buffer of the columns holds a multiple of 16.
void ColumnsToOut(const uint8_t* HWY_RESTRICT columns, int64_t n, int64_t rows,
                  uint8_t* HWY_RESTRICT out, ptrdiff_t out_stride) {
  const DTile d;
  constexpr int64_t kLanes = hn::MaxLanes(DTile());
  for (int64_t c = 0; c < n; c += 16) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      VTile v[16];
      const uint8_t* HWY_RESTRICT from = columns + c * kBlockRows + r;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) v[i] = hn::LoadU(d, from + i * kBlockRows);
      Transpose16(v);
      uint8_t* HWY_RESTRICT to = out + r * out_stride + c;
      if (HWY_LIKELY(c + 16 <= n && r + kLanes <= rows)) {
        uint8_t* HWY_RESTRICT first = to;
        uint8_t* HWY_RESTRICT second = to + 16 * out_stride;
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          StoreParts(v[i], first, second);
          first += out_stride;
          second += out_stride;
        }
        continue;
      }
      HWY_ALIGN uint8_t rim[32 * 16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        StoreParts(v[i], rim + i * 16, rim + (i + 16) * 16);
      }
      const int64_t bytes = std::min<int64_t>(16, n - c);
      for (int64_t i = 0; i < std::min<int64_t>(kLanes, rows - r); ++i) {
        std::memcpy(to + i * out_stride, rim + i * 16, bytes);
      }
    }
  }
}

#endif  // SIMD

template <int kChannels>
void ResizeImage(const ResizeJob& job, uint8_t* HWY_RESTRICT tile,
                 uint8_t* HWY_RESTRICT columns) {
  const AxisFilter& fx = *job.x;
  const AxisFilter& fy = *job.y;
  const int64_t source_bytes =
      (fx.source_end() - fx.source_begin()) * kChannels;
  const int64_t out_bytes = fx.count() * kChannels;
  const uint8_t* const source =
      job.source + (fx.source_begin() - job.source_left) * kChannels;
  for (int64_t y0 = 0; y0 < fy.count(); y0 += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, fy.count() - y0);
    uint8_t* const out = job.out + y0 * job.out_stride;
    for (int64_t strip = 0; strip < source_bytes; strip += kStripBytes) {
      const int64_t n = std::min(kStripBytes, source_bytes - strip);
      // The batch slot is not in the cache yet. Prefetching its lines during
      // the arithmetic halves the total time.
      const int64_t fetch_begin = out_bytes * strip / source_bytes;
      const int64_t fetch_end = out_bytes * (strip + n) / source_bytes;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t b = fetch_begin; b < fetch_end; b += 64) {
          hwy::Prefetch(out + r * job.out_stride + b);
        }
        SumRow(source +
                   (fy.start(y0 + r) - job.source_top) * job.source_stride +
                   strip,
               job.source_stride, fy.weights(y0 + r), fy.taps(y0 + r), n,
               tile + r * kStripBytes);
      }
      TileToColumns(tile, n, rows, columns + strip * kBlockRows);
    }
    for (int64_t x0 = 0; x0 < fx.count(); x0 += kColumnPixels) {
      const int64_t n = std::min(kColumnPixels, fx.count() - x0);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t x = job.flip ? fx.count() - 1 - (x0 + i) : x0 + i;
        SumColumns<kChannels>(columns + (fx.start(x) - fx.source_begin()) *
                                            kChannels * kBlockRows,
                              fx.weights(x), fx.taps(x), rows,
                              tile + i * kChannels * kBlockRows);
      }
      ColumnsToOut(tile, n * kChannels, rows, out + x0 * kChannels,
                   job.out_stride);
    }
  }
}

void ResizeBlocks(const ResizeJob& job, uint8_t* HWY_RESTRICT tile,
                  uint8_t* HWY_RESTRICT columns) {
  if (job.channels == 3) {
    ResizeImage<3>(job, tile, columns);
  } else {
    ResizeImage<1>(job, tile, columns);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(ResizeBlocks);

bool ResizeScratch::Reserve(int64_t source_bytes) {
  // A tile has 64 rows of a strip and one more vector, and also holds the
  // columns of 16 pixels. The transposition writes up to 32 columns after the
  // last one.
  return tile_.Reserve(64 * 256 + 64) != nullptr &&
         columns_.Reserve((source_bytes + 32) * 64) != nullptr;
}

bool ResizePixels(const ResizeJob& job, ResizeScratch& scratch) {
  const int64_t source_bytes =
      (job.x->source_end() - job.x->source_begin()) * job.channels;
  if (!scratch.Reserve(source_bytes)) return false;
  HWY_DYNAMIC_DISPATCH(ResizeBlocks)(job, scratch.tile(), scratch.columns());
  return true;
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
