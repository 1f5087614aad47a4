#include "common/clean_text.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "common/utf8.h"

namespace millrace {
namespace {

constexpr absl::string_view kCut = " ... (cut)";

bool IsReadable(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  // Line and paragraph separator, embeddings and overrides of direction.
  if (code >= 0x2028 && code <= 0x202e) return false;
  return code < 0x2066 || code > 0x2069;  // isolates of direction
}

}  // namespace

std::string CleanText(absl::string_view text, size_t max_bytes) {
  std::string clean;
  size_t uncut = 0;  // so much of it leaves room for kCut
  while (!text.empty()) {
    uint32_t code = 0;
    size_t bytes = FirstUtf8Character(text, &code);
    const bool readable = bytes > 0 && IsReadable(code);
    if (bytes == 0) bytes = 1;
    const absl::string_view character = text.substr(0, bytes);
    if (readable) {
      clean.append(character.data(), character.size());
    } else {
      clean += absl::CEscape(character);
    }
    if (clean.size() > max_bytes) {
      clean.resize(uncut);
      clean.append(kCut.data(), kCut.size());
      return clean;
    }
    if (clean.size() + kCut.size() <= max_bytes) uncut = clean.size();
    text.remove_prefix(bytes);
  }
  return clean;
}

}  // namespace millrace
