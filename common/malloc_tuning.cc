#include "common/malloc_tuning.h"

#include <malloc.h>

namespace millrace {

void SetMallocThresholds() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // The first call ends glibc's own adaptation of this one; 32 MiB is the
  // most that it may be.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

}  // namespace millrace
