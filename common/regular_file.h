// Reading files that were found in a folder or that must be mapped or read
// twice. Files that are not regular are refused, because they could block.
// A text that the user has named, perhaps as a pipe, is read by
// common/read_file.h.
//
// Thread-safe.
//
//   MR_RETURN_IF_ERROR(ReadRegularFile("photos/cat/1.jpg", &bytes));

#ifndef MILLRACE_COMMON_REGULAR_FILE_H_
#define MILLRACE_COMMON_REGULAR_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// A regular file, or a link to one, without a byte.
bool IsEmptyFile(const std::string& path);

// A regular file or a link to one, for reading. The caller closes the
// descriptor. InvalidArgument: a FIFO, a folder, a socket or a device.
// Otherwise errors as FileError() makes them.
absl::StatusOr<int> OpenRegularFile(const std::string& path);

// Replaces `bytes`, whose memory is used again. Errors as OpenRegularFile().
absl::Status ReadRegularFile(const std::string& path, std::string* bytes);

// The first `length` bytes of a regular file, fewer when the file is shorter.
// Errors as OpenRegularFile().
absl::StatusOr<std::string> ReadRegularFileStart(const std::string& path,
                                                 size_t length);

// The last `length` bytes, in the same way.
absl::StatusOr<std::string> ReadRegularFileEnd(const std::string& path,
                                               size_t length);

}  // namespace millrace

#endif  // MILLRACE_COMMON_REGULAR_FILE_H_
