#include "server/decode/memory_text.h"

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "server/decode/limits.h"

namespace millrace::decode {

std::string AboveMaximum(int64_t bytes) {
  return absl::StrCat(FormatExactByteSize(bytes), "; the maximum is ",
                      FormatByteSize(kMaxDecodedBytes), " for one image");
}

absl::Status NoMemoryForPixels(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", FormatByteSize(bytes), " of pixels"));
}

}  // namespace millrace::decode
