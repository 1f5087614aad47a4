// Checking a pipeline file: each mistake with its line.
//
//   for (const SpecMistake& m : CheckSpecText(text)) {
//     Print(filename, m.line, m.column, m.message);
//   }

#ifndef MILLRACE_SERVER_PLAN_SPEC_FILE_H_
#define MILLRACE_SERVER_PLAN_SPEC_FILE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/spec_text.h"

namespace millrace::plan {

// The mistakes in the text. If the text can be parsed (see
// ParseSpecTextWithMistakes()), they are all mistakes that can be found without
// a dataset, including images of unknown size: a field of decode_image to which
// no transform gives a single size, and which would be refused as an output. A
// mistake by omission has the line of the message it belongs to. A file may
// leave out the dataset and the batch size, which programs take from flags.
//
// `batch_size` replaces that of the file; 0: the file's, or kAssumedBatchSize
// if the file has none.
std::vector<SpecMistake> CheckSpecText(absl::string_view text,
                                       uint64_t batch_size = 0);

// The smallest batch size with which every transform works.
inline constexpr uint64_t kAssumedBatchSize = 2;

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SPEC_FILE_H_
