#include "proto/flag_hint.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace millrace {
namespace {

constexpr absl::string_view kList = "list the outputs:";
constexpr absl::string_view kBefore = " outputs { field: \"";
constexpr absl::string_view kAfter = "\" }";

// Whether --outputs can name the field that is escaped as `text`: the flag's
// names end at a comma, without the spaces around them. A backslash is that of
// an escape. A single quote would end the quoting below.
bool CanBeNamed(absl::string_view text) {
  return !text.empty() && text.find_first_of(",\\'") == text.npos &&
         text == absl::StripAsciiWhitespace(text);
}

// "--outputs=image,label", in quotes where a shell would split or change it.
std::string OutputsFlag(const std::vector<absl::string_view>& fields) {
  const std::string names = absl::StrJoin(fields, ",");
  const bool plain = std::all_of(names.begin(), names.end(), [](char c) {
    return absl::ascii_isalnum(c) || (c & 0x80) != 0 ||
           absl::string_view("_-./:@%+=,").find(c) != absl::string_view::npos;
  });
  const char* const quote = plain ? "" : "'";
  return absl::StrCat("--outputs=", quote, names, quote);
}

// The flag for the end of `message`; empty: there is none.
std::string FlagOf(absl::string_view message) {
  if (absl::EndsWith(message, kPadLastBatch)) return "--last_batch=pad";
  if (absl::EndsWith(message, kDropLastBatch)) return "--last_batch=drop";
  const size_t at = message.rfind(kList);
  if (at == message.npos) return "";
  message.remove_prefix(at + kList.size());
  std::vector<absl::string_view> fields;
  while (absl::ConsumePrefix(&message, kBefore)) {
    const size_t end = message.find(kAfter);
    if (end == message.npos) return "";
    fields.push_back(message.substr(0, end));
    if (!CanBeNamed(fields.back())) return "";
    message.remove_prefix(end + kAfter.size());
  }
  if (fields.empty() || !message.empty()) return "";
  return OutputsFlag(fields);
}

}  // namespace

std::string ListOutputs(const std::vector<absl::string_view>& fields) {
  std::string text(kList);
  for (const absl::string_view field : fields) {
    absl::StrAppend(&text, kBefore, absl::Utf8SafeCEscape(field), kAfter);
  }
  return text;
}

absl::Status WithOwnFlag(const absl::Status& status,
                         absl::Span<const absl::string_view> flags) {
  const std::string flag = FlagOf(status.message());
  const bool own =
      std::any_of(flags.begin(), flags.end(), [&flag](absl::string_view name) {
        return absl::StartsWith(flag, absl::StrCat("--", name, "="));
      });
  if (!own) return status;
  absl::Status named(status.code(), absl::StrCat(status.message(),
                                                 " (as a flag: ", flag, ")"));
  status.ForEachPayload(
      [&named](absl::string_view url, const absl::Cord& payload) {
        named.SetPayload(url, payload);
      });
  return named;
}

}  // namespace millrace
