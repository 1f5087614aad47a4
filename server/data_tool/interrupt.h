// Ctrl-C and SIGTERM as a question that a loop asks, so that what has been
// begun is cleaned up.

#ifndef MILLRACE_SERVER_DATA_TOOL_INTERRUPT_H_
#define MILLRACE_SERVER_DATA_TOOL_INTERRUPT_H_

namespace millrace {

// From now on SIGINT and SIGTERM are only noted (a second one ends the
// process), and a write beyond a file size limit is an error instead of a
// signal.
void CatchInterrupts();

bool Interrupted();

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_INTERRUPT_H_
