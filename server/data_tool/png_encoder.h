// Pixels -> PNG, for data that other programs read.

#ifndef MILLRACE_SERVER_DATA_TOOL_PNG_ENCODER_H_
#define MILLRACE_SERVER_DATA_TOOL_PNG_ENCODER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace millrace::data_tool {

// `pixels` is uint8 [height, width, channels], channels 1 (grey) or 3 (RGB).
// Replaces `png`. The same pixels give the same bytes. Internal: libpng fails.
absl::Status EncodePng(absl::Span<const uint8_t> pixels, int64_t height,
                       int64_t width, int64_t channels, std::string* png);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PNG_ENCODER_H_
