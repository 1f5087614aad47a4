#include "common/host_cpu.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace millrace {

HostCpu ParseHostCpu(absl::string_view stat, double ticks_per_second) {
  // cpu  user nice system idle iowait irq softirq steal guest guest_nice
  constexpr size_t kBusy[] = {1, 2, 3, 6, 7};
  HostCpu host;
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    if (!absl::StartsWith(line, "cpu")) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] != "cpu") {
      host.cpus += words[0].size() > 3 && absl::ascii_isdigit(words[0][3]);
      continue;
    }
    for (const size_t i : kBusy) {
      uint64_t ticks = 0;
      if (i >= words.size() || !absl::SimpleAtoi(words[i], &ticks)) return {};
      host.busy_seconds += static_cast<double>(ticks) / ticks_per_second;
    }
  }
  return host.busy_seconds > 0 ? host : HostCpu();
}

HostCpu ReadHostCpu() {
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  if (!(ticks > 0) || !file || !(text << file.rdbuf())) return {};
  return ParseHostCpu(text.str(), ticks);
}

double OtherCpuSeconds(const HostCpu& before, const HostCpu& after,
                       double own_seconds) {
  return std::max(0.0, after.busy_seconds - before.busy_seconds - own_seconds);
}

}  // namespace millrace
