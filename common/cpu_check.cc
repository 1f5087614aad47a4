#include "common/cpu_check.h"

#include <unistd.h>

namespace millrace {
namespace {

// A configuration that no restart mends, as for wrong flags.
constexpr int kExitUnsupported = 2;

bool checked = false;  // constant-initialised: set before any initialiser

}  // namespace

CpuFeatures ThisCpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return {.sse42 = __builtin_cpu_supports("sse4.2") != 0,
          .popcnt = __builtin_cpu_supports("popcnt") != 0};
#else
  return {.sse42 = true, .popcnt = true};
#endif
}

std::string CpuRefusal(const char* program, const CpuFeatures& cpu) {
  if (cpu.sse42 && cpu.popcnt) return "";
  std::string text = program;
  text += ": this CPU lacks ";
  text += cpu.sse42 ? "POPCNT" : "SSE4.2";
  text +=
      ", which the Apache Arrow library of this program needs: run it on a CPU "
      "of Intel since Nehalem or of AMD since Bulldozer; in a virtual machine "
      "choose a CPU model with SSE4.2 (x86-64-v2 or host)\n";
  return text;
}

void RequireCpu(const char* program) {
  checked = true;
  const std::string refusal = CpuRefusal(program, ThisCpu());
  if (refusal.empty()) return;
  // Neither streams nor stdio are made yet.
  const ssize_t written = write(STDERR_FILENO, refusal.data(), refusal.size());
  static_cast<void>(written);  // the exit code says it, too
  _exit(kExitUnsupported);
}

bool CpuWasChecked() { return checked; }

}  // namespace millrace
