// Normalization is TensorSpec.device_transform ready for use: uint8 to
// y = (x * scale - mean[c]) / stddev[c] in float32, c the last dimension of a
// sample. A byte has 256 values, so a table for each channel gives the exact
// result of the formula's float32 operations with one load.
//
// Immutable after Make; thread-safe. Every device computes the same bytes: the
// three operations are rounded one after the other, never fused.
//
//   MR_ASSIGN_OR_RETURN(auto n, Normalization::Make(spec));
//   n.Apply(pixels, out, rows * n.sample_elements());

#ifndef MILLRACE_CLIENT_TORCH_NORMALIZE_H_
#define MILLRACE_CLIENT_TORCH_NORMALIZE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

class Normalization {
 public:
  // `spec` has a device_transform. InvalidArgument: it does not fit the
  // tensor. Unimplemented: of another type than uint8, to another than
  // float32, or of a ragged tensor.
  static absl::StatusOr<Normalization> Make(const TensorSpec& spec);

  uint64_t channels() const { return mean_.size(); }
  uint64_t sample_elements() const { return sample_elements_; }
  float scale() const { return scale_; }
  absl::Span<const float> mean() const { return mean_; }      // one a channel
  absl::Span<const float> stddev() const { return stddev_; }  // one a channel

  // `elements` is a multiple of channels(); `target` has room for as many.
  void Apply(const uint8_t* source, float* target, uint64_t elements) const;

 private:
  Normalization() = default;

  uint64_t sample_elements_ = 0;
  float scale_ = 0;
  std::vector<float> mean_;
  std::vector<float> stddev_;
  std::vector<float> table_;  // [channels][256]
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_NORMALIZE_H_
