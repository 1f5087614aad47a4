#include "client/receive/receive_memory.h"

#include <cstdlib>

namespace millrace::receive {
namespace {

// Just below the largest block that raises the thresholds (32 MiB). Afterwards,
// blocks of up to this size come from heaps, and a heap keeps up to twice as
// much.
constexpr size_t kBlock = (32 << 20) - (64 << 10);

}  // namespace

void AdaptMallocThresholds() {
  void* volatile block = std::malloc(kBlock);
  std::free(block);
}

}  // namespace millrace::receive
