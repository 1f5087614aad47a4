// TensorCast is what TensorSpec.device_transform means, as a loop on the host:
// a cast to another element type, or (x * scale - mean[c]) / stddev[c] of
// uint8. The server computes with it what a spec places there, the client what
// it leaves to the device; so both placements give the same bytes.
//
// Arithmetic: float32, each operation rounded on its own, never fused; then one
// rounding to the result's type, to nearest, ties to even. A byte has 256
// values, so a table for each channel holds the exact results. Whole numbers
// become float16 and bfloat16 by way of float32, as in libtorch.
//
// Immutable after Make; thread-safe. Neither side need be aligned.
//
//   MR_ASSIGN_OR_RETURN(auto cast, TensorCast::Make(spec));
//   const bool all_fit = cast.Apply(pixels, out, rows *
//   cast.sample_elements());

#ifndef MILLRACE_PROTO_TENSOR_CAST_H_
#define MILLRACE_PROTO_TENSOR_CAST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// Of a tensor of a sample or a batch: far more than memory holds, and its bytes
// can be counted with 64 bits.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 48;

class TensorCast {
 public:
  // `spec` has a device_transform; its dtype and shape are those of the source.
  // InvalidArgument: it does not fit the tensor. Unimplemented: arithmetic on
  // another type than uint8, floating point to whole numbers, ragged tensors.
  static absl::StatusOr<TensorCast> Make(const TensorSpec& spec);

  DType source() const { return source_; }
  DType target() const { return target_; }
  uint64_t sample_elements() const { return sample_elements_; }

  // False: a cast alone, and all of these are empty, 1 or 0.
  bool has_scale() const { return scale_ != 0; }
  float scale() const { return scale_; }
  // One a channel; empty: none is subtracted.
  absl::Span<const float> mean() const { return mean_; }
  absl::Span<const float> stddev() const { return stddev_; }
  // Elements of a sample are in runs of `run` of one channel, the channels in
  // turn: 1 when the channel is the last dimension.
  uint64_t channels() const { return channels_; }
  uint64_t run() const { return run_; }
  // Of a scale, [channels][256] results in the target's type, by the byte;
  // empty otherwise.
  absl::Span<const uint8_t> table() const { return table_; }

  // `elements` is a multiple of sample_elements(); the target has room for as
  // many. False: a whole number did not fit into a smaller type; the target is
  // then unspecified.
  bool Apply(const uint8_t* source, uint8_t* target, uint64_t elements) const;

 private:
  TensorCast() = default;
  absl::Status ReadScale(const TensorSpec& spec);
  void FillTable();

  DType source_ = DTYPE_UNSPECIFIED;
  DType target_ = DTYPE_UNSPECIFIED;
  uint64_t sample_elements_ = 0;
  float scale_ = 0;
  std::vector<float> mean_;
  std::vector<float> stddev_;
  uint64_t channels_ = 1;
  uint64_t run_ = 1;
  std::vector<uint8_t> table_;  // [channels][256] of the target's type
};

}  // namespace millrace

#endif  // MILLRACE_PROTO_TENSOR_CAST_H_
