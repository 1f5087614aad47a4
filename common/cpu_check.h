// MR_CHECK_CPU ends a program with a message and exit code 2, instead of
// SIGILL, on a CPU that lacks instructions of its libraries. libarrow of the
// pyarrow wheel is compiled for SSE4.2 and runs such instructions in its static
// initialisers, that is, before main(): so the check is an entry of the
// program's .preinit_array, which runs before the initialisers of all
// libraries.
//
// For programs that link libarrow; not for libraries. At file scope, once:
//
//   MR_CHECK_CPU("millrace-server")
//   int main(int argc, char** argv) { ... }

#ifndef MILLRACE_COMMON_CPU_CHECK_H_
#define MILLRACE_COMMON_CPU_CHECK_H_

#include <string>

namespace millrace {

struct CpuFeatures {
  bool sse42 = false;
  bool popcnt = false;
};

// Those of this machine.
CpuFeatures ThisCpu();

// The message of a program that cannot run with `cpu`; empty: it can.
std::string CpuRefusal(const char* program, const CpuFeatures& cpu);

// Exits when this CPU is refused. Runs before any initialiser.
void RequireCpu(const char* program);

// Whether RequireCpu() has run.
bool CpuWasChecked();

}  // namespace millrace

// x86-64 only: on others, libraries are compiled for what every CPU has.
#if defined(__x86_64__)
#define MR_CHECK_CPU(program)                                       \
  static void MrCheckCpu() { millrace::RequireCpu(program); }       \
  __attribute__((section(".preinit_array"),                         \
                 used)) static void (*const mr_check_cpu_entry)() = \
      MrCheckCpu;
#else
#define MR_CHECK_CPU(program)
#endif

#endif  // MILLRACE_COMMON_CPU_CHECK_H_
