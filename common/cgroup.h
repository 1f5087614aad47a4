// What this process may use: CPUs and memory, as its control group limits
// them (versions 1 and 2, every level above it), else as the machine has them.
// A container that may use 2 of 64 CPUs then gets 2 worker threads.
//
// Reads files; no state. Safe from any thread. Never fails: what cannot be
// read does not limit.
//
//   const uint32_t threads = AvailableCpus();
//   const uint64_t budget = AvailableMemoryBytes() / 2;

#ifndef MILLRACE_COMMON_CGROUP_H_
#define MILLRACE_COMMON_CGROUP_H_

#include <cstdint>
#include <string>

namespace millrace {

// The folder that takes the place of "/" in a test; there is then no machine to
// fall back to but the numbers given here.
struct CgroupRoot {
  std::string path = "/";
  uint32_t machine_cpus = 0;    // 0: ask the system
  uint64_t machine_memory = 0;  // 0: ask the system
};

// CPUs, at least 1: the smallest of the CPU quotas (rounded up), of the set of
// CPUs that the process may run on, and of the machine's number.
uint32_t AvailableCpus(const CgroupRoot& root = {});

// Bytes: the smaller of the memory limits and the machine's memory.
uint64_t AvailableMemoryBytes(const CgroupRoot& root = {});

}  // namespace millrace

#endif  // MILLRACE_COMMON_CGROUP_H_
