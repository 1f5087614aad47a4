#include "trainer/monitoring/resource_usage.h"

#include <sys/resource.h>

namespace millrace::monitoring {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double ProcessCpuSeconds() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

}  // namespace millrace::monitoring
