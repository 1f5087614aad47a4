// Finds the known word that is nearest to a mistyped word.
//
// Pure function, safe from any thread.
//
//   NearestWord("thread", {"threads", "listen"}) -> "threads"

#ifndef MILLRACE_COMMON_PROGRAM_NEAREST_WORD_H_
#define MILLRACE_COMMON_PROGRAM_NEAREST_WORD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::program {

// The word of `words` that the fewest edits (a letter more, less or another
// one) make of `typed`: at most 3, fewer for short words; else the first that
// begins with three or more letters of `typed`. Empty: there is none.
absl::string_view NearestWord(absl::string_view typed,
                              absl::Span<const absl::string_view> words);

// "; did you mean PREFIXword?", or "" where there is no near word.
std::string DidYouMean(absl::string_view typed,
                       absl::Span<const absl::string_view> words,
                       absl::string_view prefix);

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_NEAREST_WORD_H_
