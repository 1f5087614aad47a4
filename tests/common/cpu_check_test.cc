// A CPU without SSE4.2 ended the programs with SIGILL, before main() and
// without a word: libarrow uses it while it is loaded.

#include "common/cpu_check.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

MR_CHECK_CPU("cpu_check_test")

// Initialisers of libraries run as late as this one, or earlier.
const bool checked_before = CpuWasChecked();

TEST(CpuCheck, RunsBeforeInitialisers) {
#if defined(__x86_64__)
  EXPECT_TRUE(checked_before);
#else
  EXPECT_FALSE(checked_before);
#endif
}

TEST(CpuCheck, NamesProgramFeatureAndRemedy) {
  EXPECT_EQ(CpuRefusal("millrace-server", {.sse42 = true, .popcnt = true}), "");
  const std::string refusal =
      CpuRefusal("millrace-server", {.sse42 = false, .popcnt = true});
  EXPECT_EQ(refusal,
            "millrace-server: this CPU lacks SSE4.2, which the Apache Arrow "
            "library of this program needs: run it on a CPU of Intel since "
            "Nehalem or of AMD since Bulldozer; in a virtual machine choose a "
            "CPU model with SSE4.2 (x86-64-v2 or host)\n");
  EXPECT_NE(CpuRefusal("a", {.sse42 = true, .popcnt = false}).find("POPCNT"),
            std::string::npos);
}

// The test's own machine builds Millrace, so it can run it.
TEST(CpuCheck, TakesThisMachine) { EXPECT_EQ(CpuRefusal("a", ThisCpu()), ""); }

}  // namespace
}  // namespace millrace
