// Method: a ring keeps the rows under the kernel as they were before the blur,
// so the blur works in place. One row at a time is summed along y and, with
// mirrored margins, along x. Both sums first add the two pixels at the same
// distance.

#include "server/augment/gaussian_blur.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/augment/portable_math.h"
#include "server/augment/random.h"

// The portable target replaces the small steps between SSE4 and AVX2.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/augment/gaussian_blur.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.
#include "hwy/highway.h"

#ifndef MILLRACE_BLUR_WEIGHTS
#define MILLRACE_BLUR_WEIGHTS
namespace millrace::augment {
namespace {
// In units of 1/65536. The middle weight and twice each other weight sum up to
// 65536.
struct BlurWeights {
  int radius = 0;  // distance of the last weight above 0
  uint16_t middle = 0;
  std::array<uint16_t, kMaxBlurTaps / 2 + 1> twice;  // [distance]
  // Half of the max loss by rounding down, in units of 1/256.
  uint16_t lost = 0;
};
}  // namespace
}  // namespace millrace::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

void SumAlongY(const uint8_t* const* rows, const BlurWeights* weights,
               int64_t n, uint16_t* sums) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t sum =
        weights->lost + ((uint32_t{rows[0][i]} << 8) * weights->middle >> 16);
    for (int k = 1; k <= weights->radius; ++k) {
      const uint32_t pair = uint32_t{rows[-k][i]} + rows[k][i];
      sum += (pair << 7) * weights->twice[k] >> 16;
    }
    sums[i] = static_cast<uint16_t>(sum);
  }
}

void SumAlongX(const uint16_t* sums, const BlurWeights* weights, int channels,
               int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t sum = uint32_t{sums[i]} * weights->middle >> 16;
    for (int k = 1; k <= weights->radius; ++k) {
      const uint32_t pair =
          uint32_t{sums[i - k * channels]} + sums[i + k * channels] + 1;
      sum += (pair >> 1) * weights->twice[k] >> 16;
    }
    sum = std::min<uint32_t>(65535, sum + weights->lost + 128);
    out[i] = static_cast<uint8_t>(sum >> 8);
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

// `rows` is indexed from -radius to radius. Reads and writes up to two vectors
// more than n.
void SumAlongY(const uint8_t* const* rows, const BlurWeights* weights,
               int64_t n, uint16_t* HWY_RESTRICT sums) {
  const DWords d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VWords middle = hn::Set(d, weights->middle);
  const VWords lost = hn::Set(d, weights->lost);
  for (int64_t i = 0; i < n; i += 2 * lanes) {
    VWords a = hn::ShiftLeft<8>(LoadBytes(rows[0] + i));
    VWords b = hn::ShiftLeft<8>(LoadBytes(rows[0] + i + lanes));
    a = hn::Add(hn::MulHigh(a, middle), lost);
    b = hn::Add(hn::MulHigh(b, middle), lost);
    for (int k = 1; k <= weights->radius; ++k) {
      const VWords weight = hn::Set(d, weights->twice[k]);
      const uint8_t* HWY_RESTRICT above = rows[-k] + i;
      const uint8_t* HWY_RESTRICT below = rows[k] + i;
      const VWords x = hn::Add(LoadBytes(above), LoadBytes(below));
      const VWords y =
          hn::Add(LoadBytes(above + lanes), LoadBytes(below + lanes));
      a = hn::Add(a, hn::MulHigh(hn::ShiftLeft<7>(x), weight));
      b = hn::Add(b, hn::MulHigh(hn::ShiftLeft<7>(y), weight));
    }
    hn::StoreU(a, d, sums + i);
    hn::StoreU(b, d, sums + i + lanes);
  }
}

HWY_INLINE void StoreRounded(VWords sum, const BlurWeights* weights,
                             uint8_t* to) {
  const DWords d;
  const hn::RebindToSigned<DWords> di;
  sum = hn::SaturatedAdd(
      sum, hn::Set(d, static_cast<uint16_t>(weights->lost + 128)));
  const auto bytes =
      hn::DemoteTo(DBytes(), hn::BitCast(di, hn::ShiftRight<8>(sum)));
  hn::StoreU(bytes, DBytes(), to);
}

// Reads radius * channels words on both sides of the n, and up to two vectors
// more after them.
void SumAlongX(const uint16_t* HWY_RESTRICT sums, const BlurWeights* weights,
               int channels, int64_t n, uint8_t* HWY_RESTRICT out) {
  const DWords d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VWords middle = hn::Set(d, weights->middle);
  for (int64_t i = 0; i < n; i += 2 * lanes) {
    const uint16_t* HWY_RESTRICT at = sums + i;
    VWords a = hn::MulHigh(hn::LoadU(d, at), middle);
    VWords b = hn::MulHigh(hn::LoadU(d, at + lanes), middle);
    for (int k = 1; k <= weights->radius; ++k) {
      const VWords weight = hn::Set(d, weights->twice[k]);
      const uint16_t* HWY_RESTRICT left = at - k * channels;
      const uint16_t* HWY_RESTRICT right = at + k * channels;
      const VWords x =
          hn::AverageRound(hn::LoadU(d, left), hn::LoadU(d, right));
      const VWords y = hn::AverageRound(hn::LoadU(d, left + lanes),
                                        hn::LoadU(d, right + lanes));
      a = hn::Add(a, hn::MulHigh(x, weight));
      b = hn::Add(b, hn::MulHigh(y, weight));
    }
    StoreRounded(a, weights, out + i);
    StoreRounded(b, weights, out + i + lanes);
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

HWY_EXPORT(SumAlongY);
HWY_EXPORT(SumAlongX);

// Two vectors of words: the kernels may read and write them after the end of a
// row.
constexpr int64_t kSlackBytes = 256;

int64_t Rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

BlurWeights MakeWeights(int kernel_size, double sigma) {
  BlurWeights weights;
  const int radius = kernel_size / 2;
  std::array<double, kMaxBlurTaps / 2 + 1> exact;
  double sum = 0;
  for (int k = radius; k >= 0; --k) {
    const double z = static_cast<double>(k) / sigma;
    // Below e^-40 the weight is 0 in 16 bits.
    exact[k] = z * z > 80 ? 0.0 : PortableExp(-0.5 * z * z);
    sum += k == 0 ? exact[k] : 2 * exact[k];
  }
  int64_t rest = 65536;
  for (int k = 1; k <= radius; ++k) {
    const int64_t twice = RoundHalfEven(2 * exact[k] / sum * 65536);
    weights.twice[k] = static_cast<uint16_t>(std::min<int64_t>(twice, rest));
    rest -= weights.twice[k];
    if (weights.twice[k] != 0) weights.radius = k;
  }
  // A single weight would be 65536; the smaller word gives the same result
  // after rounding.
  weights.middle = static_cast<uint16_t>(std::min<int64_t>(rest, 65535));
  weights.lost = static_cast<uint16_t>((weights.radius + 1) / 2);
  return weights;
}

// The place in [0, n) of an index outside it, mirrored about the outermost
// places.
int64_t Mirrored(int64_t i, int64_t n) {
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1);
  i = ((i % period) + period) % period;
  return i < n ? i : period - i;
}

// The layout of the scratch.
struct BlurScratch {
  BlurScratch(int64_t width, int channels, int radius)
      : row_bytes(Rounded(width * channels + kSlackBytes)),
        ring_rows(2 * radius + 1),
        margin(static_cast<int64_t>(radius) * channels),
        words(Rounded(2 * margin * 2 + width * channels * 2 + kSlackBytes)) {}

  int64_t bytes() const {
    return ring_rows * row_bytes + words + row_bytes +
           Rounded(ring_rows * static_cast<int64_t>(sizeof(uint8_t*)));
  }

  const int64_t row_bytes;
  const int64_t ring_rows;
  const int64_t margin;  // words
  const int64_t words;   // bytes of the row of sums with both margins
};

class GaussianBlurOp final : public PixelOp {
 public:
  explicit GaussianBlurOp(const GaussianBlurOptions& options)
      : options_(options) {}

  int64_t ScratchBytes(Size size, int channels) const override {
    return BlurScratchBytes(size, channels, options_.kernel_size);
  }

  absl::Status Apply(ImageSpan image, const OpContext& context) const override {
    CounterRandom random(context.sample_key, options_.place);
    const bool applied = random.Uniform() < options_.p;
    const double sigma = random.Uniform(options_.sigma_min, options_.sigma_max);
    if (context.log != nullptr) {
      context.log->Add(options_.place,
                       applied ? absl::StrCat("gaussian_blur: sigma ", sigma)
                               : "gaussian_blur: not applied");
    }
    if (!applied) return absl::OkStatus();
    return BlurPixels(image, options_.kernel_size, sigma, *context.scratch);
  }

 private:
  const GaussianBlurOptions options_;
};

}  // namespace

std::unique_ptr<const PixelOp> MakeGaussianBlur(
    const GaussianBlurOptions& options) {
  return std::make_unique<GaussianBlurOp>(options);
}

int64_t BlurScratchBytes(Size size, int channels, int kernel_size) {
  return BlurScratch(size.width, channels, kernel_size / 2).bytes();
}

absl::Status BlurPixels(ImageSpan image, int kernel_size, double sigma,
                        AlignedBuffer& scratch) {
  if (image.height == 0 || image.width == 0) return absl::OkStatus();
  const BlurWeights weights = MakeWeights(kernel_size, sigma);
  const int64_t radius = weights.radius;
  const BlurScratch lay(image.width, image.channels, weights.radius);
  uint8_t* const memory = scratch.Reserve(static_cast<size_t>(lay.bytes()));
  if (memory == nullptr) {
    return absl::ResourceExhaustedError("no memory for the rows of a blur");
  }
  // The kernels compute with the bytes after the rows; the results are
  // discarded.
  std::memset(memory, 0, static_cast<size_t>(lay.bytes()));
  uint16_t* const sums =
      reinterpret_cast<uint16_t*>(memory + lay.ring_rows * lay.row_bytes) +
      lay.margin;
  uint8_t* const out = memory + lay.ring_rows * lay.row_bytes + lay.words;
  const uint8_t** const rows =
      reinterpret_cast<const uint8_t**>(out + lay.row_bytes) + radius;

  const int64_t bytes = image.width * image.channels;
  const int channels = image.channels;
  // Row y of the image, before the blur.
  auto ring = [&](int64_t y) {
    return memory + (y % lay.ring_rows) * lay.row_bytes;
  };
  int64_t kept = 0;  // rows that are, or were, in the ring
  for (int64_t y = 0; y < image.height; ++y) {
    for (; kept < std::min(image.height, y + radius + 1); ++kept) {
      std::memcpy(ring(kept), image.data + kept * image.stride,
                  static_cast<size_t>(bytes));
    }
    for (int64_t k = -radius; k <= radius; ++k) {
      rows[k] = ring(Mirrored(y + k, image.height));
    }
    HWY_DYNAMIC_DISPATCH(SumAlongY)(rows, &weights, bytes, sums);
    for (int64_t k = 1; k <= radius; ++k) {
      std::memcpy(sums - k * channels,
                  sums + Mirrored(-k, image.width) * channels,
                  sizeof(uint16_t) * channels);
      std::memcpy(sums + bytes + (k - 1) * channels,
                  sums + Mirrored(image.width - 1 + k, image.width) * channels,
                  sizeof(uint16_t) * channels);
    }
    HWY_DYNAMIC_DISPATCH(SumAlongX)(sums, &weights, channels, bytes, out);
    std::memcpy(image.data + y * image.stride, out, static_cast<size_t>(bytes));
  }
  return absl::OkStatus();
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
