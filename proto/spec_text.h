// Reading a pipeline spec from a text file (protobuf text format). Only the
// form is checked here, so that client and trainer can read --pipeline=FILE;
// the server checks what it means.
//
// Pure functions, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(PipelineSpec spec, ParseSpecText(text,
//   "my.textproto"));

#ifndef MILLRACE_PROTO_SPEC_TEXT_H_
#define MILLRACE_PROTO_SPEC_TEXT_H_

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// One mistake; lines and columns count from 1, 0: of the file as a whole.
struct SpecMistake {
  int line = 0;
  int column = 0;
  std::string message;
};

// Parses `text` into `spec` and returns what is wrong with its form, in the
// order of the lines: of a text that does not parse each mistake that can be
// found (the statement that holds one is left out, and the rest parsed), at
// most kMaxFormMistakes and then a word that there are more. A text without any
// statement is a mistake. `spec` is of use only when there are none;
// `locations`, when not null, learns where each field was.
inline constexpr size_t kMaxFormMistakes = 20;
std::vector<SpecMistake> ParseSpecTextWithMistakes(
    absl::string_view text, PipelineSpec& spec,
    google::protobuf::TextFormat::ParseInfoTree* locations = nullptr);

// InvalidArgument: "FILE:LINE:COLUMN: what is wrong" of the first mistake.
absl::StatusOr<PipelineSpec> ParseSpecText(absl::string_view text,
                                           absl::string_view filename);

}  // namespace millrace

#endif  // MILLRACE_PROTO_SPEC_TEXT_H_
