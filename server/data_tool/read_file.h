// Reading whole files.

#ifndef MILLRACE_SERVER_DATA_TOOL_READ_FILE_H_
#define MILLRACE_SERVER_DATA_TOOL_READ_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace millrace {

// Replaces `bytes`, whose memory is used again. Errors name the file.
absl::Status ReadWholeFile(const std::string& path, std::string* bytes);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_READ_FILE_H_
