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

namespace millrace {

// What is wrong with the text: its form (see ParseSpecTextWithMistakes()), else
// all that can be said of its meaning without a dataset, undecided sizes of
// images included: a field that decode_image decodes, that no transform gives
// one size and that would therefore be refused as an output. A
// mistake by omission carries the line of the message it belongs to. A file
// may leave out the dataset and the batch size, for which programs have flags.
//
// `batch_size` stands for the file's own; 0: as the file says, or
// kAssumedBatchSize where it says nothing.
std::vector<SpecMistake> CheckSpecText(absl::string_view text,
                                       uint64_t batch_size = 0);

// The smallest size at which every transform can work.
inline constexpr uint64_t kAssumedBatchSize = 2;

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_SPEC_FILE_H_
