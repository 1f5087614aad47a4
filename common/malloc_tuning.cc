#include "common/malloc_tuning.h"

#include <malloc.h>

namespace millrace {

// Either call ends glibc's adaptation of both thresholds.

void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // The upper bound that glibc accepts.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

void ReturnLargeBlocks() {
  mallopt(M_TRIM_THRESHOLD, 2 * kLargeBlockBytes);
  mallopt(M_MMAP_THRESHOLD, kLargeBlockBytes);
}

}  // namespace millrace
