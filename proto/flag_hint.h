// A refusal of a pipeline says what to write into it: "list the outputs:
// outputs { field: "image" }". Only some programs have a flag that does the
// same (--outputs=image), so the sentence names none; a program that has the
// flag adds it where it shows the sentence.
//
// Pure functions, safe from any thread.
//
//   // where a pipeline is refused
//   absl::StrCat("... To do without, ", ListOutputs({"image", "label"}))
//   // in a program with that flag
//   status = WithOwnFlag(status, {"outputs"});

#ifndef MILLRACE_PROTO_FLAG_HINT_H_
#define MILLRACE_PROTO_FLAG_HINT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace {

// The end of a sentence: `list the outputs: outputs { field: "image" } ...`,
// with the names escaped as a pipeline file needs them.
std::string ListOutputs(const std::vector<absl::string_view>& fields);

// Likewise.
inline constexpr absl::string_view kPadLastBatch = "last_batch: LAST_BATCH_PAD";
inline constexpr absl::string_view kDropLastBatch =
    "last_batch: LAST_BATCH_DROP";

// `status`, with " (as a flag: --outputs=image)" behind its message where that
// ends as above, and `flags` ("outputs", "last_batch"), those of the program
// that shows it, have the flag. Outputs with a space and the like are quoted
// for a shell; a name that --outputs cannot take has no flag. Code and payloads
// stay; OK stays OK.
absl::Status WithOwnFlag(const absl::Status& status,
                         absl::Span<const absl::string_view> flags);

}  // namespace millrace

#endif  // MILLRACE_PROTO_FLAG_HINT_H_
