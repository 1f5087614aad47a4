#include "common/program/help_text.h"

#include "absl/strings/str_split.h"

namespace millrace::program {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kNameIndent = 2;

}  // namespace

void AppendWrapped(absl::string_view text, size_t column, size_t indent,
                   std::string* out) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    bool line_begins = true;
    for (const absl::string_view word :
         absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      if (!line_begins && column + 1 + word.size() > kWidth) {
        out->push_back('\n');
        column = 0;
        line_begins = true;
      }
      if (line_begins && column < indent) {
        out->append(indent - column, ' ');
        column = indent;
      } else if (!line_begins) {
        out->push_back(' ');
        ++column;
      }
      out->append(word.data(), word.size());
      column += word.size();
      line_begins = false;
    }
    out->push_back('\n');
    column = 0;
  }
}

void AppendHelpRow(absl::string_view name, absl::string_view text,
                   size_t column, std::string* out) {
  out->append(kNameIndent, ' ');
  out->append(name.data(), name.size());
  size_t at = kNameIndent + name.size();
  if (at + 2 > column) {
    out->push_back('\n');
    at = 0;
  }
  AppendWrapped(text, at, column, out);
}

}  // namespace millrace::program
