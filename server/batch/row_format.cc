#include "server/batch/row_format.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::batch {
namespace {

void ToPlanes(const uint8_t* source, uint64_t pixels, uint64_t channels,
              uint8_t* target) {
  if (channels == 1) {
    std::memcpy(target, source, pixels);
    return;
  }
  if (channels == 3) {
    uint8_t* const second = target + pixels;
    uint8_t* const third = second + pixels;
    for (uint64_t i = 0; i < pixels; ++i) {
      target[i] = source[3 * i];
      second[i] = source[3 * i + 1];
      third[i] = source[3 * i + 2];
    }
    return;
  }
  for (uint64_t c = 0; c < channels; ++c) {
    for (uint64_t i = 0; i < pixels; ++i) {
      target[c * pixels + i] = source[i * channels + c];
    }
  }
}

}  // namespace

absl::StatusOr<RowFormat> RowFormat::Make(const TensorSpec& source,
                                          bool planes) {
  RowFormat result;
  TensorSpec stored = source;
  if (planes) {
    if (source.dtype() != DTYPE_UINT8 || source.sample_shape_size() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", source.name(),
                       " is not uint8 [height, width, channels]: layout does "
                       "not apply to it"));
    }
    result.planes_ = true;
    result.channels_ = source.sample_shape(2);
    result.pixels_ = source.sample_shape(0) * source.sample_shape(1);
    stored.clear_sample_shape();
    for (int i : {2, 0, 1}) stored.add_sample_shape(source.sample_shape(i));
    if (stored.has_device_transform()) {
      stored.mutable_device_transform()->set_channels_first(true);
    }
  }
  result.source_bytes_ = ElementBytes(source.dtype());
  for (int64_t dim : source.sample_shape()) result.source_bytes_ *= dim;
  if (stored.has_device_transform()) {
    MR_ASSIGN_OR_RETURN(result.cast_, TensorCast::Make(stored));
    if (planes) result.scratch_bytes_ = result.source_bytes_;
  }
  return result;
}

bool RowFormat::Apply(const uint8_t* source, uint8_t* target,
                      uint8_t* scratch) const {
  if (planes_) {
    uint8_t* const planes = cast_ ? scratch : target;
    ToPlanes(source, pixels_, channels_, planes);
    source = planes;
  }
  if (!cast_) {
    if (!planes_) std::memcpy(target, source, source_bytes_);
    return true;
  }
  return cast_->Apply(source, target, cast_->sample_elements());
}

}  // namespace millrace::batch
