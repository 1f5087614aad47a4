#include "common/hex.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr size_t kMaxQuoted = 80;

}  // namespace

absl::StatusOr<std::string> ParseHex(absl::string_view text) {
  if (text.size() % 2 != 0 ||
      !std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::CHexEscape(text.substr(0, kMaxQuoted)),
        text.size() > kMaxQuoted ? "...\"" : "\"", " is not hexadecimal"));
  }
  return absl::HexStringToBytes(text);
}

}  // namespace millrace
