#include "common/json_text.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "common/utf8.h"

namespace millrace {

std::string JsonText(absl::string_view text) {
  const bool utf8 = IsUtf8(text);
  std::string json = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json.push_back('\\');
      json.push_back(c);
    } else if (byte < 0x20) {
      absl::StrAppendFormat(&json, "\\u%04x", byte);
    } else if (byte >= 0x80 && !utf8) {
      json += "\\ufffd";
    } else {
      json.push_back(c);
    }
  }
  json.push_back('"');
  return json;
}

std::string JsonNumber(double value, int digits) {
  return std::isfinite(value) ? absl::StrFormat("%.*g", digits, value) : "null";
}

}  // namespace millrace
