// Reading a whole file into memory: a configuration, a pipeline, weights.
//
// Thread-safe. Not for records of a dataset, which server/storage maps.
//
//   MR_ASSIGN_OR_RETURN(const std::string text,
//                       ReadFile(path, kMaxTextFileBytes, "the pipeline"));

#ifndef MILLRACE_COMMON_READ_FILE_H_
#define MILLRACE_COMMON_READ_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Max size of a text file that a person writes. A larger file is a mistake.
inline constexpr uint64_t kMaxTextFileBytes = 16 << 20;
inline constexpr uint64_t kNoFileLimit = UINT64_MAX;

// Reads a pipe, too, and waits for its writer: after a second without bytes it
// logs a line, and a signal that StopSignals holds ends the wait. `what` names
// the file in an error: "the configuration"; empty: the path names it.
// InvalidArgument: the file has more than `limit` bytes. Cancelled: stopped by
// a signal while it waited for a pipe. Otherwise errors as FileError() makes
// them.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit,
                                     absl::string_view what = "");

// The same for an open file, which it closes. Replaces `bytes`, whose memory is
// used again.
absl::Status ReadToEnd(int fd, const std::string& path, uint64_t limit,
                       absl::string_view what, std::string* bytes);

}  // namespace millrace

#endif  // MILLRACE_COMMON_READ_FILE_H_
