#include "client/torch/normalize.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"

namespace millrace {

absl::StatusOr<Normalization> Normalization::Make(const TensorSpec& spec) {
  const DeviceTransform& transform = spec.device_transform();
  auto named = [&spec](absl::string_view what) {
    return absl::StrCat("the device transform of tensor ", spec.name(), " ",
                        what);
  };
  if (spec.dtype() != DTYPE_UINT8 || transform.dtype() != DTYPE_FLOAT32) {
    return absl::UnimplementedError(named(absl::StrCat(
        "makes ", DTypeName(transform.dtype()), " of ", DTypeName(spec.dtype()),
        "; this client makes float32 of uint8")));
  }
  if (spec.sample_shape().empty()) {
    return absl::InvalidArgumentError(
        named("needs a channel dimension, but its samples are scalars"));
  }
  Normalization result;
  result.sample_elements_ = 1;
  for (int64_t dim : spec.sample_shape()) {
    if (dim < 0) {
      return absl::UnimplementedError(named("is on a ragged tensor"));
    }
    result.sample_elements_ *= static_cast<uint64_t>(dim);
  }
  const int64_t channels = *spec.sample_shape().rbegin();
  auto fits = [channels](int size) { return size == 1 || size == channels; };
  if (channels < 1 || channels > 4096 || !fits(transform.mean_size()) ||
      !fits(transform.stddev_size())) {
    return absl::InvalidArgumentError(named(absl::StrCat(
        "has ", transform.mean_size(), " means and ", transform.stddev_size(),
        " deviations for ", channels, " channels; give one for each")));
  }
  result.scale_ = transform.scale();
  for (int64_t c = 0; c < channels; ++c) {
    const float mean = transform.mean(transform.mean_size() == 1 ? 0 : c);
    const float stddev = transform.stddev(transform.stddev_size() == 1 ? 0 : c);
    if (!std::isfinite(mean) || !std::isfinite(stddev) || !(stddev > 0) ||
        !std::isfinite(result.scale_)) {
      return absl::InvalidArgumentError(named(absl::StrCat(
          "has the mean ", mean, " and the deviation ", stddev, " in channel ",
          c, "; both must be finite, the latter above 0")));
    }
    result.mean_.push_back(mean);
    result.stddev_.push_back(stddev);
  }
  result.table_.resize(static_cast<size_t>(channels) * 256);
  for (int64_t c = 0; c < channels; ++c) {
    for (int x = 0; x < 256; ++x) {
      const float scaled = static_cast<float>(x) * result.scale_;
      const float centred = scaled - result.mean_[c];
      result.table_[c * 256 + x] = centred / result.stddev_[c];
    }
  }
  return result;
}

void Normalization::Apply(const uint8_t* source, float* target,
                          uint64_t elements) const {
  const float* table = table_.data();
  switch (channels()) {
    case 1:
      for (uint64_t i = 0; i < elements; ++i) target[i] = table[source[i]];
      return;
    case 3:
      for (uint64_t i = 0; i + 3 <= elements; i += 3) {
        target[i] = table[source[i]];
        target[i + 1] = table[256 + source[i + 1]];
        target[i + 2] = table[512 + source[i + 2]];
      }
      return;
    default: {
      const uint64_t n = channels();
      for (uint64_t i = 0; i + n <= elements; i += n) {
        for (uint64_t c = 0; c < n; ++c) {
          target[i + c] = table[c * 256 + source[i + c]];
        }
      }
    }
  }
}

}  // namespace millrace
