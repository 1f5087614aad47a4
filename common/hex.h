// Parses bytes that a file or a person wrote as hexadecimal digits. absl's own
// HexStringToBytes does not check for digits.
//
//   MR_ASSIGN_OR_RETURN(const std::string hash, ParseHex("00ff"));

#ifndef MILLRACE_COMMON_HEX_H_
#define MILLRACE_COMMON_HEX_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Two digits a byte, either case; no bytes of an empty text. InvalidArgument
// quotes the start of the text and says that it is not hexadecimal; the caller
// adds the place where the text was found.
absl::StatusOr<std::string> ParseHex(absl::string_view text);

}  // namespace millrace

#endif  // MILLRACE_COMMON_HEX_H_
