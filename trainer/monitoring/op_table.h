// OpTable aggregates the events of a profile by name: the number of calls, the
// time without callees ("self"), and the device's time for it. What it is not:
// a profile itself; step_profiler.h records one.
//
// Pure functions over plain data, safe from any thread, without libtorch.
//
//   puts(FormatOpTable(OpTable(events), 20).c_str());
//
// Events of one thread are nested or disjoint, as calls are. The device's work
// belongs to the innermost event of the host with the same `link`: Kineto ties
// kernels in this way to the operators that launched them.

#ifndef MILLRACE_TRAINER_MONITORING_OP_TABLE_H_
#define MILLRACE_TRAINER_MONITORING_OP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::monitoring {

struct OpEvent {
  std::string name;
  uint64_t start_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t thread = 0;  // of the host
  bool on_device = false;
  // For an event of the host its own number; for one of the device, the number
  // of the host's event that launched it; 0: none.
  uint64_t link = 0;
};

struct OpRow {
  std::string name;
  uint64_t calls = 0;
  double self_cpu_seconds = 0;
  double cpu_seconds = 0;     // with callees
  double device_seconds = 0;  // launched by itself, not by callees
};

// Sorted by decreasing time: the device's if there is any, otherwise the CPU's.
std::vector<OpRow> OpTable(std::vector<OpEvent> events);

// The first `rows` as text, with shares of all rows and the number of rows left
// out.
std::string FormatOpTable(const std::vector<OpRow>& table, size_t rows);

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_OP_TABLE_H_
