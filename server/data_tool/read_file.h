// Opening files and reading them whole, or their beginning.
//
//   MR_RETURN_IF_ERROR(ReadRegularFile("photos/cat/1.jpg", &bytes));

#ifndef MILLRACE_SERVER_DATA_TOOL_READ_FILE_H_
#define MILLRACE_SERVER_DATA_TOOL_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// Of a file that the user has named: also a pipe, whose writer is waited for.
// Replaces `bytes`, whose memory is used again. Errors name the file.
absl::Status ReadWholeFile(const std::string& path, std::string* bytes);

// For reading, a file that was found in a folder: a regular file or a link to
// one. The caller closes the descriptor. InvalidArgument: a FIFO, which could
// block for ever, a folder, a socket or a device. Otherwise as ReadWholeFile().
absl::StatusOr<int> OpenRegularFile(const std::string& path);

// Errors as OpenRegularFile().
absl::Status ReadRegularFile(const std::string& path, std::string* bytes);

// The first `length` bytes of a regular file, fewer when the file is shorter.
// Errors as OpenRegularFile().
absl::StatusOr<std::string> ReadRegularFileStart(const std::string& path,
                                                 size_t length);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_READ_FILE_H_
