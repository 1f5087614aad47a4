#include "proto/flag_hint.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace millrace {
namespace {

constexpr absl::string_view kList = "list the outputs:";
constexpr absl::string_view kBefore = " outputs { field: \"";
constexpr absl::string_view kAfter = "\" }";

// The flag for the end of `message`; empty: there is none.
std::string FlagOf(absl::string_view message) {
  if (absl::EndsWith(message, kPadLastBatch)) return "--last_batch=pad";
  const size_t at = message.rfind(kList);
  if (at == message.npos) return "";
  message.remove_prefix(at + kList.size());
  std::vector<absl::string_view> fields;
  while (absl::ConsumePrefix(&message, kBefore)) {
    const size_t end = message.find(kAfter);
    if (end == message.npos) return "";
    fields.push_back(message.substr(0, end));
    message.remove_prefix(end + kAfter.size());
  }
  if (fields.empty() || !message.empty()) return "";
  return absl::StrCat("--outputs=", absl::StrJoin(fields, ","));
}

}  // namespace

std::string ListOutputs(const std::vector<absl::string_view>& fields) {
  std::string text(kList);
  for (const absl::string_view field : fields) {
    absl::StrAppend(&text, kBefore, field, kAfter);
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
