// Expands ranges of numbers and lists in braces, as shells do: many shards are
// named by one word, {train,extra}-{000..009}.tar. Other braces stay as they
// are.
//
// Pure functions, safe from any thread.
//
//   ExpandBraces("t-{08..10}.tar")  ->  {"t-08.tar", "t-09.tar", "t-10.tar"}

#ifndef MILLRACE_SERVER_STORAGE_BRACE_LIST_H_
#define MILLRACE_SERVER_STORAGE_BRACE_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

// Max words that a list may stand for.
inline constexpr size_t kMaxBraceWords = 1'000'000;

// Whether the word has a range or a list.
bool HasBraces(absl::string_view word);

// The words in the order of the numbers and of the lists, the first braces the
// slowest. Numbers have leading zeros if one of the two ends has.
// InvalidArgument: a range that falls, or too many words.
absl::StatusOr<std::vector<std::string>> ExpandBraces(absl::string_view word);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_BRACE_LIST_H_
