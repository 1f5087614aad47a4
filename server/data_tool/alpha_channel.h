// Whether an encoded image stores transparency, from its header. Decodes
// nothing.
//
// Pure function over foreign bytes: never reads outside them.

#ifndef MILLRACE_SERVER_DATA_TOOL_ALPHA_CHANNEL_H_
#define MILLRACE_SERVER_DATA_TOOL_ALPHA_CHANNEL_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::data_tool {

// True for a PNG with an alpha channel or transparent colours (tRNS) and for a
// WebP whose header announces alpha. False for everything else.
bool HasAlpha(absl::Span<const uint8_t> image);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_ALPHA_CHANNEL_H_
