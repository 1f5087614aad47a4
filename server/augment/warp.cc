// Method: along a row of the result, the point in the source moves by a
// constant step, in fixed point. The columns whose points are inside the source
// are computed once for each row, so the loop over the columns has no test.

#include "server/augment/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "server/augment/bilinear_run.h"

namespace millrace::augment {
namespace {

constexpr int kWeightBits = BilinearWeights::kBits;
constexpr int64_t kWeightOne = BilinearWeights::kOne;

// Columns [begin, end).
struct Columns {
  int64_t begin = 0;
  int64_t end = 0;
};

// Rounds up; d > 0.
int64_t DivideUp(int64_t n, int64_t d) { return n / d + (n % d > 0 ? 1 : 0); }

// The columns of `within` at which low <= start + step * column < high.
Columns Solve(int64_t start, int64_t step, int64_t low, int64_t high,
              Columns within) {
  if (step == 0) {
    if (start < low || start >= high) within.end = within.begin;
    return within;
  }
  int64_t begin, end;
  if (step > 0) {
    begin = DivideUp(low - start, step);
    end = DivideUp(high - start, step);
  } else {  // start - high < |step| * column <= start - low
    begin = DivideUp(start - high + 1, -step);
    end = DivideUp(start - low + 1, -step);
  }
  within.begin = std::clamp(begin, within.begin, within.end);
  within.end = std::clamp(end, within.begin, within.end);
  return within;
}

// The source coordinates along the rows of the result.
class Walk {
 public:
  // False: the map enlarges the image so much that a step does not fit in 64
  // bits. No pixel of the image is visible then.
  bool Init(const AffineMap& map, Size size) {
    map_ = map;
    const double w = static_cast<double>(size.width) + 2;
    const double h = static_cast<double>(size.height) + 2;
    const double bound = std::max(
        std::abs(map.xx) * w + std::abs(map.xy) * h + std::abs(map.x0) + w,
        std::abs(map.yx) * w + std::abs(map.yy) * h + std::abs(map.y0) + h);
    if (!(bound < 0x1p45)) return false;  // leaves 16 fraction bits
    while (bound * one_ > 0x1p61) {
      --bits_;
      one_ = one_ * 0.5;
    }
    step_x_ = Fixed(map.xx);
    step_y_ = Fixed(map.yx);
    return true;
  }

  // From here on, the middles of pixels are at whole numbers.
  void BeginRow(int64_t row) {
    const double x = 0.5;
    const double y = static_cast<double>(row) + 0.5;
    start_x_ = Fixed(map_.xx * x + map_.xy * y + map_.x0 - 0.5);
    start_y_ = Fixed(map_.yx * x + map_.yy * y + map_.y0 - 0.5);
  }

  int bits() const { return bits_; }
  int64_t one() const { return int64_t{1} << bits_; }
  int64_t start_x() const { return start_x_; }
  int64_t start_y() const { return start_y_; }
  int64_t step_x() const { return step_x_; }
  int64_t step_y() const { return step_y_; }

  // Columns whose point, moved by `shift`, is in [low, high_x) x [low, high_y),
  // in whole places.
  Columns Inside(int64_t shift, int64_t low, int64_t high_x, int64_t high_y,
                 int64_t width) const {
    Columns c = {0, width};
    c = Solve(start_x_ + shift, step_x_, low * one(), high_x * one(), c);
    return Solve(start_y_ + shift, step_y_, low * one(), high_y * one(), c);
  }

 private:
  int64_t Fixed(double v) const {
    return static_cast<int64_t>(std::floor(v * one_ + 0.5));
  }

  AffineMap map_;
  int bits_ = 32;
  double one_ = 0x1p32;
  int64_t start_x_ = 0;
  int64_t start_y_ = 0;
  int64_t step_x_ = 0;
  int64_t step_y_ = 0;
};

void FillPixels(uint8_t* to, int64_t count, const FillColor& fill,
                int channels) {
  if (fill.count() == 1) {
    std::memset(to, fill.of(0), count * channels);
    return;
  }
  for (int64_t i = 0; i < count; ++i, to += channels) {
    for (int c = 0; c < channels; ++c) to[c] = fill.of(c);
  }
}

// kChannels is 0 if the number is known only at run time.
template <int kChannels>
class Warper {
 public:
  Warper(const WarpJob& job, const Walk& walk)
      : job_(job),
        walk_(walk),
        channels_(kChannels == 0 ? job.channels : kChannels),
        from_stride_(job.size.width * channels_) {}

  void NearestRow(uint8_t* to) const {
    const int64_t half = walk_.one() / 2;
    const Columns in = walk_.Inside(half, 0, job_.size.width, job_.size.height,
                                    job_.size.width);
    FillPixels(to, in.begin, job_.fill, channels_);
    // Copied to local variables, because the compiler must assume that the
    // writes change members.
    const int bits = walk_.bits();
    const int64_t step_x = walk_.step_x();
    const int64_t step_y = walk_.step_y();
    const uint8_t* const from = job_.from;
    const int64_t from_stride = from_stride_;
    const int channels = kChannels == 0 ? channels_ : kChannels;
    int64_t x = walk_.start_x() + half + step_x * in.begin;
    int64_t y = walk_.start_y() + half + step_y * in.begin;
    uint8_t* out = to + in.begin * channels;
    auto next = [&] {
      const uint8_t* pixel =
          from + (y >> bits) * from_stride + (x >> bits) * channels;
      x += step_x;
      y += step_y;
      return pixel;
    };
    int64_t i = in.begin;
    if constexpr (kChannels == 3) {
      // Writes four bytes at a time; the next pixel overwrites the last one.
      for (; i + 1 < in.end; ++i, out += 3) std::memcpy(out, next(), 4);
    }
    for (; i < in.end; ++i, out += channels) {
      const uint8_t* pixel = next();
      for (int c = 0; c < channels; ++c) out[c] = pixel[c];
    }
    FillPixels(out, job_.size.width - in.end, job_.fill, channels_);
  }

  void BilinearRow(uint8_t* to) const {
    const int64_t width = job_.size.width;
    const int64_t height = job_.size.height;
    // `some`: columns with at least one of the four pixels inside. `all`:
    // columns with all of them inside.
    const Columns some = walk_.Inside(0, -1, width, height, width);
    Columns all = walk_.Inside(0, 0, width - 1, height - 1, width);
    if (all.begin == all.end) all = {some.end, some.end};
    FillPixels(to, some.begin, job_.fill, channels_);
    for (int64_t i = some.begin; i < all.begin; ++i) Edge(i, to);
    Inner(all, to);
    for (int64_t i = all.end; i < some.end; ++i) Edge(i, to);
    FillPixels(to + some.end * channels_, width - some.end, job_.fill,
               channels_);
  }

 private:
  const uint8_t* At(int64_t x, int64_t y) const {
    return job_.from + y * from_stride_ + x * channels_;
  }

  // All four pixels are inside.
  void Inner(Columns in, uint8_t* to) const {
    if constexpr (kChannels == 3) {
      BilinearRun run;
      run.from = job_.from;
      run.from_stride = from_stride_;
      run.x = walk_.start_x() + walk_.step_x() * in.begin;
      run.y = walk_.start_y() + walk_.step_y() * in.begin;
      run.step_x = walk_.step_x();
      run.step_y = walk_.step_y();
      run.bits = walk_.bits();
      run.count = in.end - in.begin;
      run.to = to + in.begin * 3;
      DrawBilinearRun(run);
      return;
    }
    const int bits = walk_.bits();
    const int64_t step_x = walk_.step_x();
    const int64_t step_y = walk_.step_y();
    const int channels = kChannels == 0 ? channels_ : kChannels;
    int64_t x = walk_.start_x() + step_x * in.begin;
    int64_t y = walk_.start_y() + step_y * in.begin;
    uint8_t* out = to + in.begin * channels;
    for (int64_t i = in.begin; i < in.end; ++i, out += channels) {
      const uint8_t* above = At(x >> bits, y >> bits);
      const uint8_t* below = above + from_stride_;
      const BilinearWeights w = WeightsAt(x, y, bits);
      for (int c = 0; c < channels; ++c) {
        const int32_t sum = above[c] * w.w00 + above[c + channels] * w.w01 +
                            below[c] * w.w10 + below[c + channels] * w.w11;
        out[c] = static_cast<uint8_t>((sum + kWeightOne / 2) >> kWeightBits);
      }
      x += step_x;
      y += step_y;
    }
  }

  // Some of the four pixels are outside.
  void Edge(int64_t column, uint8_t* to) const {
    const int64_t x = walk_.start_x() + walk_.step_x() * column;
    const int64_t y = walk_.start_y() + walk_.step_y() * column;
    const int64_t left = x >> walk_.bits();
    const int64_t top = y >> walk_.bits();
    const BilinearWeights w = WeightsAt(x, y, walk_.bits());
    const int64_t weights[4] = {w.w00, w.w01, w.w10, w.w11};
    const uint8_t* pixels[4];
    int64_t share = 0;
    for (int k = 0; k < 4; ++k) {
      const int64_t px = left + (k & 1);
      const int64_t py = top + (k >> 1);
      const bool inside =
          px >= 0 && px < job_.size.width && py >= 0 && py < job_.size.height;
      pixels[k] = inside ? At(px, py) : nullptr;
      if (inside) share += weights[k];
    }
    for (int c = 0; c < channels_; ++c) {
      int64_t sum = 0;
      for (int k = 0; k < 4; ++k) {
        if (pixels[k] != nullptr) sum += pixels[k][c] * weights[k];
      }
      sum *= kWeightOne;
      if (job_.fill_given) {
        sum = (sum >> kWeightBits) * share +
              job_.fill.of(c) * (kWeightOne - share) * kWeightOne;
      }
      to[column * channels_ + c] = static_cast<uint8_t>(
          (sum + (kWeightOne * kWeightOne) / 2) >> (2 * kWeightBits));
    }
  }

  const WarpJob& job_;
  const Walk& walk_;
  const int channels_;
  const int64_t from_stride_;
};

template <int kChannels>
void Warp(const WarpJob& job, Walk& walk) {
  const Warper<kChannels> warper(job, walk);
  for (int64_t row = 0; row < job.size.height; ++row) {
    uint8_t* to = job.to + row * job.to_stride;
    walk.BeginRow(row);
    if (job.nearest) {
      warper.NearestRow(to);
    } else {
      warper.BilinearRow(to);
    }
  }
}

}  // namespace

void WarpPixels(const WarpJob& job) {
  Walk walk;
  if (!walk.Init(job.inverse, job.size)) {
    for (int64_t row = 0; row < job.size.height; ++row) {
      FillPixels(job.to + row * job.to_stride, job.size.width, job.fill,
                 job.channels);
    }
    return;
  }
  switch (job.channels) {
    case 1:
      return Warp<1>(job, walk);
    case 3:
      return Warp<3>(job, walk);
    default:
      return Warp<0>(job, walk);
  }
}

}  // namespace millrace::augment
