// The limit of files and connections that the process may have open.

#ifndef MILLRACE_SERVER_FILE_LIMIT_H_
#define MILLRACE_SERVER_FILE_LIMIT_H_

#include <cstdint>

namespace millrace {

// Connections, LMDB shards and shared memory each take a descriptor; the usual
// limit of 1,024 is for programs that use select().
inline constexpr uint64_t kWantedOpenFiles = 65536;

// Raises the limit to `wanted`, or to what the system allows at most. Never
// lowers it. Returns the limit from now on; 0: the system does not say.
uint64_t RaiseFileLimit(uint64_t wanted = kWantedOpenFiles);

}  // namespace millrace

#endif  // MILLRACE_SERVER_FILE_LIMIT_H_
