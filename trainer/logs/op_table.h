// OpTable adds up the events of a profile by name: how often each ran, how long
// without what it called ("self"), and how long the device worked for it. What
// it is not: a profile itself; step_profiler.h makes one.
//
// Pure functions over plain data, safe from any thread, without libtorch.
//
//   puts(FormatOpTable(OpTable(events), 20).c_str());
//
// Events of one thread lie inside one another or side by side, as calls do.
// Work of the device belongs to the innermost event of the host with the same
// `link`: that is how Kineto ties kernels to the operators that started them.

#ifndef MILLRACE_TRAINER_LOGS_OP_TABLE_H_
#define MILLRACE_TRAINER_LOGS_OP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct OpEvent {
  std::string name;
  uint64_t start_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t thread = 0;  // of the host
  bool on_device = false;
  // Of an event of the host its own number, of one of the device that of the
  // host's event that caused it; 0: none.
  uint64_t link = 0;
};

struct OpRow {
  std::string name;
  uint64_t calls = 0;
  double self_cpu_seconds = 0;
  double cpu_seconds = 0;     // with what it called
  double device_seconds = 0;  // started by itself, not by what it called
};

// Most time first: of the device where there is any, else of the CPU.
std::vector<OpRow> OpTable(std::vector<OpEvent> events);

// The first `rows`, with shares of all rows, as text; says how many are left
// out.
std::string FormatOpTable(const std::vector<OpRow>& table, size_t rows);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOGS_OP_TABLE_H_
