#include "server/operators/operator_result.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// Bytes of the UTF-8 character at the beginning of `text`, which is not empty;
// 0 when there is none.
size_t CharacterBytes(absl::string_view text) {
  const auto at = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, half of a UTF-16 pair, beyond Unicode.
  if (first == 0xe0 && at(1) < 0xa0) return 0;
  if (first == 0xed && at(1) >= 0xa0) return 0;
  if (first == 0xf0 && at(1) < 0x90) return 0;
  if (first == 0xf4 && at(1) >= 0x90) return 0;
  return bytes;
}

}  // namespace

bool IsUtf8Text(absl::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

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
