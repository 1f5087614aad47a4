// A text as a JSON string.

#ifndef MILLRACE_SERVER_DATA_TOOL_JSON_TEXT_H_
#define MILLRACE_SERVER_DATA_TOOL_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// With its quotes. Bytes above 127 stay as they are when the text is UTF-8 and
// become U+FFFD when it is not.
std::string JsonText(absl::string_view text);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_JSON_TEXT_H_
