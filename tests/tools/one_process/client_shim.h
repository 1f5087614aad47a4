// A C interface to the host client, as small as the proof of
// tools/prove-one-process needs it: open, receive, close.
//
// What it is not: the interface of the product, which is client/c/millrace.h.
//
// Threads: each loader is for one thread at a time.

#ifndef MILLRACE_TESTS_TOOLS_ONE_PROCESS_CLIENT_SHIM_H_
#define MILLRACE_TESTS_TOOLS_ONE_PROCESS_CLIENT_SHIM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct millrace_shim_loader millrace_shim_loader;

// `spec_text`: a PipelineSpec in protobuf's text format. `epochs`: 0 is no end.
// Null: failed; `error` (of error_size bytes) then has the reason.
millrace_shim_loader* millrace_shim_open(const char* endpoint,
                                         const char* spec_text, uint64_t epochs,
                                         char* error, uint64_t error_size);

// 1: a batch; *bytes is the size of its payload and *digest the XXH3-64 of it.
// 0: all epochs were delivered. -1: failed, as above.
int millrace_shim_next(millrace_shim_loader* loader, uint64_t* bytes,
                       uint64_t* digest, char* error, uint64_t error_size);

void millrace_shim_close(millrace_shim_loader* loader);

#ifdef __cplusplus
}
#endif

#endif  // MILLRACE_TESTS_TOOLS_ONE_PROCESS_CLIENT_SHIM_H_
