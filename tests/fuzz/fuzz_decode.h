// What the decoders are fuzzed with: arbitrary bytes, decoded whole and in
// part, at every size, and as class numbers. Must neither crash, leak, hang nor
// report anything but success, DataLoss and ResourceExhausted. Shared by the
// targets of the formats.

#ifndef MILLRACE_TESTS_FUZZ_FUZZ_DECODE_H_
#define MILLRACE_TESTS_FUZZ_FUZZ_DECODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/decode/image_format.h"

namespace millrace {

// An image that claims more pixels is only opened: decoding it is right but
// slow, and takes up to decode::kMaxDecodedBytes, as it may.
inline constexpr int64_t kMaxFuzzedPixels = 1 << 20;

// Returns whether the bytes were a whole image of `format`; others are not
// looked at. Aborts on a broken promise.
bool FuzzDecode(decode::ImageFormat format, const uint8_t* data, size_t size);

// Aborts unless it is one that decoding may end with.
void CheckDecodeStatus(const absl::Status& status);

// As a seed.
std::string AsSeed(const std::vector<uint8_t>& bytes);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_FUZZ_DECODE_H_
