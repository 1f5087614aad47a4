// What the decoders say about memory, in one form for all formats. Sizes have
// units: "needs 289.1 MiB (303104003 bytes); the maximum is 256 MiB for one
// image".
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_DECODE_MEMORY_TEXT_H_
#define MILLRACE_SERVER_DECODE_MEMORY_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace millrace::decode {

// "N; the maximum is M for one image": the end of a sentence about `bytes`
// above kMaxDecodedBytes.
std::string AboveMaximum(int64_t bytes);

// ResourceExhausted: the system has no memory for `bytes` of pixels.
absl::Status NoMemoryForPixels(int64_t bytes);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_MEMORY_TEXT_H_
