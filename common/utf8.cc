#include "common/utf8.h"

namespace millrace {

size_t FirstUtf8Character(absl::string_view text, uint32_t* code) {
  if (text.empty()) return 0;
  const uint8_t lead = text[0];
  *code = lead;
  if (lead < 0x80) return 1;
  size_t bytes;
  uint32_t min;  // of this length: longer forms than needed are not allowed
  if ((lead & 0xE0) == 0xC0) {
    bytes = 2, *code = lead & 0x1F, min = 0x80;
  } else if ((lead & 0xF0) == 0xE0) {
    bytes = 3, *code = lead & 0x0F, min = 0x800;
  } else if ((lead & 0xF8) == 0xF0) {
    bytes = 4, *code = lead & 0x07, min = 0x10000;
  } else {
    return 0;
  }
  if (bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    const uint8_t next = text[i];
    if ((next & 0xC0) != 0x80) return 0;
    *code = *code << 6 | (next & 0x3F);
  }
  const bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
  return *code < min || *code > 0x10FFFF || surrogate ? 0 : bytes;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    uint32_t code;
    const size_t bytes = FirstUtf8Character(text, &code);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace millrace
