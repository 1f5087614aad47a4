// Values as JSON writes them.

#ifndef MILLRACE_COMMON_JSON_TEXT_H_
#define MILLRACE_COMMON_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// A JSON string, with its quotes. Bytes above 127 stay as they are when the
// text is UTF-8 and become U+FFFD when it is not.
std::string JsonText(absl::string_view text);

// Six digits; null when it is not finite, for which JSON has no number.
std::string JsonNumber(double value);

}  // namespace millrace

#endif  // MILLRACE_COMMON_JSON_TEXT_H_
