// The CPU time of all programs of a machine, from /proc/stat. Compared with the
// CPU time of a process it shows whether other programs used the cores. A
// container sees the whole machine.
//
// Pure functions, and one look at the system; safe from any thread.
//
//   const HostCpu before = ReadHostCpu();
//   ...
//   const double others = OtherCpuSeconds(before, ReadHostCpu(), own_seconds);

#ifndef MILLRACE_COMMON_HOST_CPU_H_
#define MILLRACE_COMMON_HOST_CPU_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace {

struct HostCpu {
  // Of all CPUs together since the machine's start: user, nice, system and
  // interrupts. Idle time, waits for disks and what a hypervisor took are not
  // in it.
  double busy_seconds = 0;
  uint32_t cpus = 0;  // 0: not known
};

// `stat` is the text of /proc/stat. All 0 where it is none.
HostCpu ParseHostCpu(absl::string_view stat, double ticks_per_second);

// All 0 where the system does not say.
HostCpu ReadHostCpu();

// CPU time of the programs that are not ours, which took `own_seconds` between
// the two readings. At least 0: the kernel counts in ticks.
double OtherCpuSeconds(const HostCpu& before, const HostCpu& after,
                       double own_seconds);

}  // namespace millrace

#endif  // MILLRACE_COMMON_HOST_CPU_H_
