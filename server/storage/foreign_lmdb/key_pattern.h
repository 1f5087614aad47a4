// KeyPattern takes the name of a class out of a key: a text with {class} in the
// place of the name, and * for any text.
//
//   train/{class}/*      train/cat/0001.jpg  ->  cat
//   {class}_*            n01440764_18        ->  n01440764
//   */{class}.jpg        2024/07/dog.jpg     ->  dog
//
// {class} stands for at least one letter, and for no '/'. * stands for any
// letters, or none. Where a key matches in several ways, the first * or {class}
// takes as few letters as it can, then the second, and so on.
//
// Immutable, thread-safe. Matching takes time in proportion to pattern times
// key, whatever they are.
//
//   MR_ASSIGN_OR_RETURN(KeyPattern pattern, KeyPattern::Parse("{class}_*"));
//   absl::string_view name = pattern.ClassOf("n01440764_18");

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_KEY_PATTERN_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_KEY_PATTERN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

class KeyPattern {
 public:
  // InvalidArgument: {class} is not in it exactly once, or it is longer than a
  // key can be; a part of a sentence.
  static absl::StatusOr<KeyPattern> Parse(absl::string_view text);

  // A part of `key`; empty: the key does not match.
  absl::string_view ClassOf(absl::string_view key) const;

 private:
  enum class Kind { kText, kAny, kClass };
  struct Part {
    Kind kind = Kind::kText;
    std::string text;  // kText
  };
  struct Search;

  bool Match(size_t part, size_t at, Search* search) const;

  std::vector<Part> parts_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_KEY_PATTERN_H_
