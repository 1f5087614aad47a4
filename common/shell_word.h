// A word of a shell's command line, for commands that an error recommends: a
// path may have spaces, quotes or dollar signs.
//
// What it is not: no quoting for files of configuration, and no protection of a
// terminal against control characters.
//
// Pure function, safe from any thread.
//
//   ShellWord("bad/batch.json")  ->  bad/batch.json
//   ShellWord("my run's.json")   ->  'my run'\''s.json'
//   ShellWord("")                ->  ''

#ifndef MILLRACE_COMMON_SHELL_WORD_H_
#define MILLRACE_COMMON_SHELL_WORD_H_

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace millrace {

// `text` as it is when no shell reads any of its characters in another way,
// otherwise in single quotes.
inline std::string ShellWord(absl::string_view text) {
  const bool plain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
               absl::string_view("_-./:,=+@%").find(c) !=
                   absl::string_view::npos;
      });
  if (plain) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_SHELL_WORD_H_
