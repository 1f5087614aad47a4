// What gRPC and protobuf log, in the program's own log. On their own they write
// to standard error, a line for each bad byte of a peer, with these bytes as
// they came: a peer could forge lines of ours and fill the disk.
//
// Not for libraries: both logs belong to the whole process. Programs call it.
//
//   int main() {
//     RouteLibraryLogs();  // before gRPC is used

#ifndef MILLRACE_PROTO_LIBRARY_LOGS_H_
#define MILLRACE_PROTO_LIBRARY_LOGS_H_

namespace millrace {

// From now on a line of gRPC's or protobuf's is one line of our log, readable
// and cut (common/logging.h, common/clean_text.h), with the place in their
// source. Each place writes at most 5 lines at once and one in 10 s, and says
// the suppressed lines: with its next line, by SayLinesLeftOut(), or when
// the program ends.
//
// GRPC_VERBOSITY=info or debug, or GRPC_TRACE, in the environment: an operator
// debugs, so every line of gRPC is written, up to 64 KiB a line.
// GRPC_STACKTRACE_MINLOGLEVEL: only gRPC's own log has stack traces; it is left
// as it is, which the log says.
//
// Called once, before other threads are there.
void RouteLibraryLogs();

// Logs how many lines were left out at places that have been silent since. For
// a program that runs for long to call now and then. Thread-safe.
void SayLinesLeftOut();

}  // namespace millrace

#endif  // MILLRACE_PROTO_LIBRARY_LOGS_H_
