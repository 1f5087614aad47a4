// A valid batch header with a dense, a scalar and a ragged tensor, and the
// payload that belongs to it: the sample that tests of the wire start from and
// damage.

#ifndef MILLRACE_TESTS_TESTING_WIRE_SAMPLES_H_
#define MILLRACE_TESTS_TESTING_WIRE_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::testing {

// image uint8 [2,2,3], label int64 [], text ragged uint8, sample_index, valid;
// 3 rows of which 2 are valid; epoch 4, step 17, rank 1 of 2.
BatchHeader SampleHeader();

// The tensors as Open would describe them.
google::protobuf::RepeatedPtrField<TensorSpec> SampleTensors();

// Payload of SampleHeader().
std::vector<uint8_t> SamplePayload();

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_WIRE_SAMPLES_H_
