#include "server/operators/operator_result.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/utf8.h"

namespace millrace {
namespace {

// Bytes of the UTF-8 character at the beginning of `text`, which is not empty;
// 0 when there is none.
size_t CharacterBytes(absl::string_view text) {
  for (size_t bytes = 1; bytes <= 4 && bytes <= text.size(); ++bytes) {
    if (IsUtf8(text.substr(0, bytes))) return bytes;
  }
  return 0;
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const bool plain =
        bytes > 1 || (bytes == 1 && text[0] >= 0x20 && text[0] != 0x7f);
    if (plain) {
      printable.append(text.data(), bytes);
    } else {
      printable.push_back('?');
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return printable;
}

absl::Status OperatorResult::Failed(absl::string_view who,
                                    absl::StatusCode invalid) const {
  const absl::string_view sentence(error_, strnlen(error_, sizeof(error_)));
  const std::string text = absl::StrCat(
      who, ": ",
      sentence.empty() ? "it failed and gives no reason" : Printable(sentence));
  switch (result_) {
    case MILLRACE_INVALID:
      return absl::Status(invalid, text);
    case MILLRACE_NOT_FOUND:
      return absl::NotFoundError(text);
    case MILLRACE_UNAVAILABLE:
      return absl::UnavailableError(text);
    case MILLRACE_NO_MEMORY:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(
          absl::StrCat(text, " (result ", result_,
                       ", which millrace_operator.h does not have)"));
  }
}

}  // namespace millrace
