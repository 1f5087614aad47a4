// Whether what a program printed reached its standard output. A full disk or a
// closed pipe must not end in exit code 0.
//
// Thread-safe. Not for text that is drawn while work goes on (progress lines).
//
//   std::fputs(text.c_str(), stdout);
//   MR_RETURN_IF_ERROR(FlushStandardOutput());

#ifndef MILLRACE_COMMON_STANDARD_OUTPUT_H_
#define MILLRACE_COMMON_STANDARD_OUTPUT_H_

#include "absl/status/status.h"

namespace millrace {

// Writes what is buffered. DataLoss: this, or an earlier write to stdout,
// failed; names the system's reason where the failure happened just now.
absl::Status FlushStandardOutput();

}  // namespace millrace

#endif  // MILLRACE_COMMON_STANDARD_OUTPUT_H_
