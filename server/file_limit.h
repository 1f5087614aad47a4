// The limit of files and connections that the process may have open.

#ifndef MILLRACE_SERVER_FILE_LIMIT_H_
#define MILLRACE_SERVER_FILE_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace millrace::server {

// Connections, LMDB shards and shared memory each take a descriptor; the usual
// limit of 1,024 is for programs that use select().
inline constexpr uint64_t kWantedOpenFiles = 65536;

// Raises the limit to `wanted`, or to what the system allows at most. Never
// lowers it. Returns the limit from now on; 0: the system does not say.
uint64_t RaiseFileLimit(uint64_t wanted = kWantedOpenFiles);

// The limit now; 0: the system does not say.
uint64_t FileLimit();

// Number of files and connections that the process has open. 0: the system does
// not say, or the process may open no further file.
uint64_t OpenFiles();

// Checks that a process with this limit, which has `open` files open, can start
// a server. To call before gRPC starts: gRPC aborts the process when it gets no
// descriptor. Unavailable: names the limit and the number that the server
// needs. `limit` 0 (unknown) passes.
absl::Status CheckFileLimit(uint64_t limit, uint64_t open);

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_FILE_LIMIT_H_
