// Whether a text is UTF-8: metadata, protobuf's and Parquet's strings must be,
// file names need not.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_COMMON_UTF8_H_
#define MILLRACE_COMMON_UTF8_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace {

bool IsUtf8(absl::string_view text);

// Bytes of the character at the start of `text`, and its code point. 0: `text`
// is empty or does not begin with a character in UTF-8.
size_t FirstUtf8Character(absl::string_view text, uint32_t* code);

}  // namespace millrace

#endif  // MILLRACE_COMMON_UTF8_H_
