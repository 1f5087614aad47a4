// The safetensors format: eight bytes, little-endian, with the length of the
// header; the header, which is JSON; and the elements of all tensors one after
// another. Hugging Face's library of that name reads and writes it
// (https://github.com/huggingface/safetensors, "Format").
//
// Pure functions over bytes. Nothing in the file is trusted: offsets outside of
// the file, overlaps, gaps, sizes that do not match the shape, and duplicate
// names are refused. Types that the trainer does not use (8-bit floats, uint32
// and others) are refused by name.
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

namespace millrace::weights {

// In the order of the header; their bytes are views of `file`. DataLoss: the
// file is damaged; the message says where. Also when the file holds a digest of
// the elements, as WriteSafetensors() writes, and they do not match it.
absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(
    absl::string_view file);

// `tensors` are row-major without gaps and have different names. The header's
// "__metadata__" gets the format and a digest of the elements.
void WriteSafetensors(const std::vector<StoredTensor>& tensors,
                      const ByteSink& sink);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_H_
