#include "server/decode/webp_memory.h"

#include <cstddef>
#include <cstdlib>
#include <limits>

namespace millrace::decode {
namespace {

// Without a budget, all memory may be used.
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

thread_local int64_t bytes_left = kUnbounded;
thread_local bool refused = false;

// Whether `count` items of `size` bytes fit the budget; subtracts them from it.
bool Take(uint64_t count, size_t size) {
  uint64_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return false;
  if (bytes_left == kUnbounded) return true;
  if (bytes > static_cast<uint64_t>(bytes_left)) {
    refused = true;
    return false;
  }
  bytes_left -= static_cast<int64_t>(bytes);
  return true;
}

}  // namespace

WebpMemoryBudget::WebpMemoryBudget(int64_t bytes) : bytes_(bytes) {
  bytes_left = bytes;
  refused = false;
}

WebpMemoryBudget::~WebpMemoryBudget() { bytes_left = kUnbounded; }

bool WebpMemoryBudget::exceeded() const { return refused; }

int64_t WebpMemoryBudget::used() const { return bytes_ - bytes_left; }

}  // namespace millrace::decode

// Replaces libwebp's function (src/utils/utils.h): allocates `nmemb` items of
// `size` bytes, or returns null.
extern "C" {

__attribute__((visibility("default"))) void* WebPSafeMalloc(uint64_t nmemb,
                                                            size_t size) {
  return millrace::decode::Take(nmemb, size) ? std::malloc(nmemb * size)
                                             : nullptr;
}

__attribute__((visibility("default"))) void* WebPSafeCalloc(uint64_t nmemb,
                                                            size_t size) {
  return millrace::decode::Take(nmemb, size) ? std::calloc(nmemb, size)
                                             : nullptr;
}

__attribute__((visibility("default"))) void WebPSafeFree(void* memory) {
  std::free(memory);
}

}  // extern "C"
