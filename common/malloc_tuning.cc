#include "common/malloc_tuning.h"

#include <malloc.h>

namespace millrace {

void SetMallocThresholds() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // The first call ends glibc's adaptation of this threshold; 32 MiB is its
  // upper bound.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

}  // namespace millrace
