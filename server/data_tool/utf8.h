// Whether a text is UTF-8: metadata and Parquet strings must be, file names
// need not.

#ifndef MILLRACE_SERVER_DATA_TOOL_UTF8_H_
#define MILLRACE_SERVER_DATA_TOOL_UTF8_H_

#include "absl/strings/string_view.h"

namespace millrace {

bool IsUtf8(absl::string_view text);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_UTF8_H_
