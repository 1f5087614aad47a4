#include "server/augment/axis_filter.h"

#include <algorithm>
#include <cmath>

namespace millrace::augment {

void AxisFilter::Reset(int64_t count, int64_t stride) {
  count_ = count;
  stride_ = stride;
  if (static_cast<int64_t>(starts_.size()) < count) {
    starts_.resize(count);
    taps_.resize(count);
  }
  if (static_cast<int64_t>(weights_.size()) < count * stride) {
    weights_.resize(count * stride);
  }
  if (static_cast<int64_t>(exact_.size()) < stride) exact_.resize(stride);
}

void AxisFilter::BuildNearest(const Options& o) {
  Reset(o.count, 1);
  const int64_t begin = static_cast<int64_t>(o.begin);
  const int64_t places = static_cast<int64_t>(o.end) - begin;
  // The rule of at::native's nearest_neighbor_compute_source_index.
  const float scale =
      static_cast<float>(places) / static_cast<float>(o.resized);
  for (int64_t i = 0; i < o.count; ++i) {
    const float at = static_cast<float>(o.first + i) * scale;
    starts_[i] = begin + std::min(static_cast<int64_t>(at), places - 1);
    taps_[i] = 1;
    weights_[i] = 65535;
  }
  source_begin_ = starts_[0];
  source_end_ = starts_[o.count - 1] + 1;
}

void AxisFilter::Build(const Options& o) {
  const double step = (o.end - o.begin) / static_cast<double>(o.resized);
  // Half the width of the triangle, in source places.
  const double support = o.antialias && step > 1.0 ? step : 1.0;
  const double slope = 1.0 / support;
  Reset(o.count, static_cast<int64_t>(std::ceil(support)) * 2 + 1);
  source_begin_ = o.limit_end;
  source_end_ = o.limit_begin;
  double* const exact = exact_.data();
  for (int64_t i = 0; i < o.count; ++i) {
    const double center =
        o.begin + (static_cast<double>(o.first + i) + 0.5) * step;
    // Places whose middle is under the triangle. The limits are not negative,
    // so the truncation of a negative number does no harm.
    const int64_t low = std::clamp(static_cast<int64_t>(center - support + 0.5),
                                   o.limit_begin, o.limit_end - 1);
    const int64_t high = std::clamp(
        static_cast<int64_t>(center + support + 0.5), low + 1, o.limit_end);
    const int32_t n =
        static_cast<int32_t>(std::min<int64_t>(high - low, stride_));
    double sum = 0;
    for (int32_t k = 0; k < n; ++k) {
      const double distance =
          std::abs(static_cast<double>(low + k) + 0.5 - center);
      const double weight = std::max(0.0, 1.0 - distance * slope);
      exact[k] = weight;
      sum += weight;
    }
    uint16_t* weights = &weights_[i * stride_];
    if (!(sum > 0)) {  // the nearest place, at a fractional box's edge
      exact[0] = sum = 1.0;
      for (int32_t k = 1; k < n; ++k) exact[k] = 0.0;
    }
    // The running sum is rounded, so that the weights sum up to exactly 65536.
    const double scale = 65536.0 / sum;
    double running = 0;
    int32_t before = 0;
    for (int32_t k = 0; k < n; ++k) {
      running += exact[k];
      const int32_t after = static_cast<int32_t>(running * scale + 0.5);
      weights[k] = static_cast<uint16_t>(std::min(after - before, 65535));
      before = after;
    }
    // Weights of zero at both ends would take time without an effect.
    int32_t begin = 0;
    int32_t end = n;
    while (weights[begin] == 0) ++begin;
    while (weights[end - 1] == 0) --end;
    if (begin > 0) std::copy(weights + begin, weights + end, weights);
    starts_[i] = low + begin;
    taps_[i] = end - begin;
    source_begin_ = std::min(source_begin_, low + begin);
    source_end_ = std::max(source_end_, low + end);
  }
}

}  // namespace millrace::augment
