// Checking a pipeline file: each mistake with its line.
//
//   for (const SpecMistake& m : CheckSpecText(text)) {
//     Print(filename, m.line, m.column, m.message);
//   }

#ifndef MILLRACE_SERVER_PLAN_SPEC_FILE_H_
#define MILLRACE_SERVER_PLAN_SPEC_FILE_H_

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
// may leave out the dataset, for which programs have a flag.
std::vector<SpecMistake> CheckSpecText(absl::string_view text);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_SPEC_FILE_H_
