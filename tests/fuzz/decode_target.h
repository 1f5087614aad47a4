// What the decoders are fuzzed with: arbitrary bytes, decoded whole and in
// part, at every size, and through the image stage. Must neither crash, leak,
// hang nor report anything but success, DataLoss and ResourceExhausted.

#ifndef MILLRACE_TESTS_FUZZ_DECODE_TARGET_H_
#define MILLRACE_TESTS_FUZZ_DECODE_TARGET_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

// Returns whether the bytes were an image. Aborts on a broken promise.
bool FuzzDecode(const uint8_t* data, size_t size);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_DECODE_TARGET_H_
