// The entry points of libFuzzer (clang -fsanitize=fuzzer).

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/fuzz/fuzz_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::TheFuzzTarget().run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  const auto repair = millrace::TheFuzzTarget().repair;
  // Now and then the damage stays.
  if (repair == nullptr || seed % 8 == 0) return size;
  std::string input(reinterpret_cast<const char*>(data), size);
  repair(input);
  size = std::min(input.size(), max_size);
  std::memcpy(data, input.data(), size);
  return size;
}
