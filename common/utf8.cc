#include "common/utf8.h"

#include <cstdint>

namespace millrace {

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const uint8_t lead = text[i++];
    if (lead < 0x80) continue;
    int more;
    uint32_t code;
    uint32_t least;  // longer forms than needed are not allowed
    if ((lead & 0xE0) == 0xC0) {
      more = 1, code = lead & 0x1F, least = 0x80;
    } else if ((lead & 0xF0) == 0xE0) {
      more = 2, code = lead & 0x0F, least = 0x800;
    } else if ((lead & 0xF8) == 0xF0) {
      more = 3, code = lead & 0x07, least = 0x10000;
    } else {
      return false;
    }
    for (; more > 0; --more, ++i) {
      if (i == text.size()) return false;
      const uint8_t next = text[i];
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code < least || code > 0x10FFFF || surrogate) return false;
  }
  return true;
}

}  // namespace millrace
