// The safetensors format: eight bytes little-endian with the length of a
// header, the header, which is JSON, and the elements of all tensors one after
// another. It is what Hugging Face's library of that name reads and writes
// (https://github.com/huggingface/safetensors, "Format").
//
// Pure functions over bytes. Nothing of the file is trusted: offsets that leave
// the file, overlap or leave holes, sizes that are not those of the shape, and
// names that come twice are refused. Types that the trainer has no use for
// (8-bit floats, uint32 and so on) are refused by name.
//
//   MR_ASSIGN_OR_RETURN(auto tensors, ParseSafetensors(bytes));  // views
//   WriteSafetensors(tensors, sink);

#ifndef MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_H_
#define MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/weights/byte_sink.h"
#include "trainer/weights/stored_tensor.h"

namespace millrace {

// In the order of the header; their bytes are views of `file`. DataLoss says
// what is wrong, also where the file holds a digest of the elements, as
// WriteSafetensors() makes one, and they differ from it.
absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(
    absl::string_view file);

// `tensors` are row-major without gaps and have different names. The header's
// "__metadata__" gets a digest of the elements beside the format.
void WriteSafetensors(const std::vector<StoredTensor>& tensors,
                      const ByteSink& sink);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_H_
