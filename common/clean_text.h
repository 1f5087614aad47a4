// CleanText makes one line of readable UTF-8 of bytes that a peer or a file
// gave: what is logged, shown or sent as an error. Such bytes can then neither
// look like a line of ours nor move a terminal's cursor, and a log collector
// takes them as text.
//
// Pure function, safe from any thread.
//
//   CleanText("no dataset `a\nb`", 1200)  // "no dataset `a\\nb`"

#ifndef MILLRACE_COMMON_CLEAN_TEXT_H_
#define MILLRACE_COMMON_CLEAN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// Escaped as in C ("\n", "\033"): control characters, those of Unicode that
// end a line or turn the direction of writing, and bytes that are no UTF-8.
// All else, also a backslash, stays. A result of more than `max_bytes`
// (20 or more) is cut before that and ends with " ... (cut)".
std::string CleanText(absl::string_view text, size_t max_bytes);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CLEAN_TEXT_H_
