// Checks a received batch once, so that the rest of the client can trust it:
// the header against the plan before any payload is taken, and what the
// payload itself says (ragged offsets, booleans) after it has arrived.
//
// Pure functions over foreign bytes; they allocate only for error messages.
//
//   BatchExpectation expect{.tensors = plan.tensors(), .epoch = 0, .step = 17,
//                           .rank = 1, .world_size = 4,
//                           .max_payload_bytes = plan.max_payload_bytes()};
//   MR_RETURN_IF_ERROR(ValidateBatchHeader(frame.header, expect));
//   ... the payload arrives ...
//   MR_RETURN_IF_ERROR(ValidatePayload(header, payload));

#ifndef MILLRACE_PROTO_WIRE_BATCH_VIEW_H_
#define MILLRACE_PROTO_WIRE_BATCH_VIEW_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::wire {

// What a client requested. `tensors` are those of the plan, not owned.
struct BatchExpectation {
  const google::protobuf::RepeatedPtrField<TensorSpec>* tensors = nullptr;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint64_t max_payload_bytes = 0;
  // Rows that this rank gets at most (global batch / world). 0: not checked.
  uint64_t max_rows = 0;
};

// DataLoss, with a sentence that names the tensor and the numbers: position
// other than requested; tensors other than the plan's; a tensor whose size is
// not rows x shape x type, that is not aligned, is outside the payload or
// over another one; counts that cannot be.
absl::Status ValidateBatchHeader(const BatchHeader& header,
                                 const BatchExpectation& expect);

// `payload` is whole and `header` has passed ValidateBatchHeader. DataLoss:
// ragged offsets that do not rise from 0 to the number of values, a boolean
// that is neither 0 nor 1, or `valid` that does not count to local_valid.
// Reads offsets and booleans only, not the values.
absl::Status ValidatePayload(const BatchHeader& header,
                             absl::Span<const uint8_t> payload);

// Elements of one sample of a dense tensor, or of one value of a ragged one
// (the product of the dimensions after the first). False when the shape is
// none or overflows.
bool SampleElements(
    const google::protobuf::RepeatedField<int64_t>& sample_shape, bool* ragged,
    uint64_t* elements);

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_BATCH_VIEW_H_
