// Whether what a program printed reached its standard output. A full disk, a
// closed pipe or a closed stream must not end in exit code 0.
//
// FlushStandardOutput() is thread-safe. Not for text that is drawn while work
// goes on (progress lines).
//
//   HoldStandardStreams();  // first in main()
//   IgnoreWriteSignals();
//   std::fputs(text.c_str(), stdout);
//   MR_RETURN_IF_ERROR(FlushStandardOutput());

#ifndef MILLRACE_COMMON_STANDARD_OUTPUT_H_
#define MILLRACE_COMMON_STANDARD_OUTPUT_H_

#include "absl/status/status.h"

namespace millrace {

// Of a program that was started with a closed standard stream the next file or
// socket would get the stream's number, and what is printed would go into it.
// Puts /dev/null in the place of a closed stream, in such a way that writing to
// it fails. Before anything is opened and any thread is started.
void HoldStandardStreams();

// A write to a pipe or socket whose reader has ended, or to a file that grows too
// large, fails with an errno instead of a signal that ends the process without
// a message. A handler that the program has set stays.
void IgnoreWriteSignals();

// Writes what is buffered. DataLoss: this, or an earlier write to stdout,
// failed; names the system's reason unless the stream can be written again.
absl::Status FlushStandardOutput();

}  // namespace millrace

#endif  // MILLRACE_COMMON_STANDARD_OUTPUT_H_
