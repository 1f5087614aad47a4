#include "common/cgroup.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace {
namespace {

// The first line of a small file, without its end.
std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// A folder and those above it, up to and with `top`: a limit at any of them
// holds.
std::vector<std::string> WithParents(const std::string& top,
                                     std::string group) {
  std::vector<std::string> folders;
  while (group.size() > 1) {
    folders.push_back(top + group);
    group.resize(group.find_last_of('/'));
  }
  folders.push_back(top);
  return folders;
}

struct Groups {
  std::vector<std::string> unified;  // folders of version 2
  std::vector<std::string> cpu;      // of version 1
  std::vector<std::string> memory;   // of version 1
};

// Lines of /proc/self/cgroup are ID:CONTROLLERS:PATH, "0::PATH" for version 2.
Groups FindGroups(const std::string& root) {
  const std::string mount = absl::StrCat(root, "sys/fs/cgroup");
  Groups groups;
  std::ifstream file(absl::StrCat(root, "proc/self/cgroup"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[1].empty()) {
      groups.unified = WithParents(mount, parts[2]);
      continue;
    }
    for (absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      // Mounted under its own name or that of the whole list ("cpu,cpuacct").
      for (const std::string& name : {std::string(controller), parts[1]}) {
        auto folders = WithParents(absl::StrCat(mount, "/", name), parts[2]);
        auto& list = controller == "cpu"      ? groups.cpu
                     : controller == "memory" ? groups.memory
                                              : folders;
        if (&list != &folders) {
          list.insert(list.end(), folders.begin(), folders.end());
        }
      }
    }
  }
  // In a container the path may be that of the host: the mount itself is the
  // container's group.
  if (groups.unified.empty()) groups.unified.push_back(mount);
  groups.cpu.push_back(absl::StrCat(mount, "/cpu"));
  groups.memory.push_back(absl::StrCat(mount, "/memory"));
  return groups;
}

std::optional<double> Number(absl::string_view text) {
  double value;
  if (!absl::SimpleAtod(text, &value) || !(value > 0)) return std::nullopt;
  return value;
}

std::string RootOf(const CgroupRoot& root) {
  return absl::EndsWith(root.path, "/") ? root.path
                                        : absl::StrCat(root.path, "/");
}

}  // namespace

uint32_t AvailableCpus(const CgroupRoot& root) {
  double cpus = root.machine_cpus;
  if (root.machine_cpus == 0) {
    cpus = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
      cpus = CPU_COUNT(&set);
    }
  }
  const Groups groups = FindGroups(RootOf(root));
  const auto limit = [&cpus](std::optional<double> quota,
                             std::optional<double> period) {
    if (quota && period) cpus = std::min(cpus, *quota / *period);
  };
  for (const std::string& folder : groups.unified) {
    // "max 100000" or "150000 100000".
    const auto line = ReadLine(folder + "/cpu.max");
    if (!line) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(*line, ' ');
    if (parts.size() == 2) limit(Number(parts[0]), Number(parts[1]));
  }
  for (const std::string& folder : groups.cpu) {
    const auto quota = ReadLine(folder + "/cpu.cfs_quota_us");  // -1: none
    const auto period = ReadLine(folder + "/cpu.cfs_period_us");
    if (quota && period) limit(Number(*quota), Number(*period));
  }
  const auto whole = static_cast<uint32_t>(cpus);
  return std::max<uint32_t>(1, whole < cpus ? whole + 1 : whole);
}

uint64_t AvailableMemoryBytes(const CgroupRoot& root) {
  uint64_t bytes = root.machine_memory;
  if (bytes == 0) {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    bytes = pages > 0 && page > 0
                ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page)
                : std::numeric_limits<uint64_t>::max();
  }
  const Groups groups = FindGroups(RootOf(root));
  const auto limit = [&bytes](const std::string& path) {
    const auto line = ReadLine(path);
    uint64_t value;
    // "max" (version 2) is no number; version 1 writes a huge one.
    if (line && absl::SimpleAtoi(*line, &value) && value > 0) {
      bytes = std::min(bytes, value);
    }
  };
  for (const std::string& folder : groups.unified) {
    limit(folder + "/memory.max");
    limit(folder + "/memory.high");
  }
  for (const std::string& folder : groups.memory) {
    limit(folder + "/memory.limit_in_bytes");
  }
  return bytes;
}

}  // namespace millrace
