// RowFormat converts one sample of a tensor from the result of the stages to
// its bytes on the wire: another layout, another element type, or a transform
// that the spec places on the server instead of the client's device. Types and
// arithmetic are those of proto/tensor_cast.h, so both places give the same
// bytes.
//
// Immutable after Make; thread-safe. It allocates nothing.
//
//   MR_ASSIGN_OR_RETURN(auto format, RowFormat::Make(source, /*planes=*/true));
//   if (!format.Apply(pixels, row, scratch)) return BadSample(...);

#ifndef MILLRACE_SERVER_BATCH_ROW_FORMAT_H_
#define MILLRACE_SERVER_BATCH_ROW_FORMAT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/tensor_cast.h"

namespace millrace::batch {

class RowFormat {
 public:
  // `source`: name, type and shape of a sample before. Its device_transform,
  // when it has one, is what is computed here. `planes`: [height, width,
  // channels] becomes [channels, height, width]; the sample is uint8 then.
  // Errors as TensorCast::Make().
  static absl::StatusOr<RowFormat> Make(const TensorSpec& source, bool planes);

  uint64_t source_bytes() const { return source_bytes_; }
  uint64_t scratch_bytes() const { return scratch_bytes_; }
  // Zeros do not become zeros.
  bool moves_zero() const { return cast_ && cast_->has_scale(); }

  // `scratch` has scratch_bytes(); nothing overlaps. False: a whole number does
  // not fit into the type of the wire; `target` is then unspecified.
  bool Apply(const uint8_t* source, uint8_t* target, uint8_t* scratch) const;

 private:
  RowFormat() = default;

  uint64_t source_bytes_ = 0;
  uint64_t scratch_bytes_ = 0;
  bool planes_ = false;
  uint64_t pixels_ = 0;
  uint64_t channels_ = 0;
  std::optional<TensorCast> cast_;
};

}  // namespace millrace::batch

#endif  // MILLRACE_SERVER_BATCH_ROW_FORMAT_H_
