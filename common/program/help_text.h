// Layout of help texts: two columns, wrapped so that they fit a terminal of 80
// columns.
//
// Pure functions, safe from any thread.
//
//   std::string help = "Flags:\n";
//   AppendHelpRow("--threads=N", "Number of threads.", kFlagColumn, &help);

#ifndef MILLRACE_COMMON_PROGRAM_HELP_TEXT_H_
#define MILLRACE_COMMON_PROGRAM_HELP_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::program {

// Column, from 0, at which the explanation of a flag begins.
inline constexpr size_t kFlagColumn = 28;

// Appends `text`, its further lines indented by `indent` spaces, and a line
// feed. `column`: where the last line of `out` ends. A line feed in `text`
// begins a line; a word that is wider than a line stays whole.
void AppendWrapped(absl::string_view text, size_t column, size_t indent,
                   std::string* out);

// Appends "  name  text", the text at `column`. A longer name has a line of its
// own.
void AppendHelpRow(absl::string_view name, absl::string_view text,
                   size_t column, std::string* out);

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_HELP_TEXT_H_
