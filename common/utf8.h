// Whether a text is UTF-8: metadata, protobuf's and Parquet's strings must be,
// file names need not.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_COMMON_UTF8_H_
#define MILLRACE_COMMON_UTF8_H_

#include "absl/strings/string_view.h"

namespace millrace {

bool IsUtf8(absl::string_view text);

}  // namespace millrace

#endif  // MILLRACE_COMMON_UTF8_H_
