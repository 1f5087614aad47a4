// Entry point for libFuzzer (clang -fsanitize=fuzzer,address).

#include "tests/fuzz/decode_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::FuzzDecode(data, size);
  return 0;
}
