#include "trainer/monitoring/op_table.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::monitoring {
namespace {

constexpr double kNano = 1e-9;
// Columns of a name in the table; names of kernel templates fill pages.
constexpr size_t kNameWidth = 48;

// "12.3 ms", "45 us".
std::string Time(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.2f s ", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.2f ms", 1e3 * seconds);
  return absl::StrFormat("%.1f us", 1e6 * seconds);
}

double Share(double part, double all) { return all > 0 ? 100 * part / all : 0; }

}  // namespace

std::vector<OpRow> OpTable(std::vector<OpEvent> events) {
  // Callers before callees.
  std::stable_sort(events.begin(), events.end(),
                   [](const OpEvent& a, const OpEvent& b) {
                     if (a.thread != b.thread) return a.thread < b.thread;
                     if (a.start_ns != b.start_ns) {
                       return a.start_ns < b.start_ns;
                     }
                     return a.duration_ns > b.duration_ns;
                   });
  std::map<std::string, OpRow> rows;
  std::unordered_map<uint64_t, std::string> by_link;
  struct Open {
    OpRow* row;
    uint64_t end;
  };
  std::vector<Open> open;  // the calls that are open on one thread
  uint64_t thread = 0;
  for (const OpEvent& event : events) {
    if (event.on_device) continue;
    if (event.thread != thread) open.clear();
    thread = event.thread;
    const uint64_t end = event.start_ns + event.duration_ns;
    while (!open.empty() && open.back().end <= event.start_ns) open.pop_back();
    OpRow& row = rows[event.name];
    row.name = event.name;
    ++row.calls;
    const double seconds = kNano * static_cast<double>(event.duration_ns);
    row.self_cpu_seconds += seconds;
    row.cpu_seconds += seconds;
    if (!open.empty()) {
      // The part of a call that reaches beyond its caller does not count for
      // the caller.
      const uint64_t inside = std::min(end, open.back().end) - event.start_ns;
      open.back().row->self_cpu_seconds -= kNano * static_cast<double>(inside);
    }
    open.push_back({&row, end});
    if (event.link != 0) by_link[event.link] = event.name;
  }
  for (const OpEvent& event : events) {
    if (!event.on_device) continue;
    const auto caller = by_link.find(event.link);
    const std::string& name = event.link != 0 && caller != by_link.end()
                                  ? caller->second
                                  : event.name;
    OpRow& row = rows[name];
    if (row.name.empty()) {
      row.name = name;
      row.calls = 1;
    } else if (name == event.name) {
      ++row.calls;
    }
    row.device_seconds += kNano * static_cast<double>(event.duration_ns);
  }
  std::vector<OpRow> table;
  bool device = false;
  for (auto& [name, row] : rows) {
    device = device || row.device_seconds > 0;
    table.push_back(std::move(row));
  }
  std::stable_sort(table.begin(), table.end(),
                   [device](const OpRow& a, const OpRow& b) {
                     return device ? a.device_seconds > b.device_seconds
                                   : a.self_cpu_seconds > b.self_cpu_seconds;
                   });
  return table;
}

std::string FormatOpTable(const std::vector<OpRow>& table, size_t rows) {
  double cpu = 0;
  double device = 0;
  for (const OpRow& row : table) {
    cpu += row.self_cpu_seconds;
    device += row.device_seconds;
  }
  std::string text = absl::StrFormat("  %-*s %9s %7s %9s", int{kNameWidth},
                                     "operator", "self CPU", "", "CPU");
  if (device > 0) absl::StrAppendFormat(&text, " %9s %7s", "device", "");
  absl::StrAppendFormat(&text, " %8s\n", "calls");
  for (size_t i = 0; i < std::min(rows, table.size()); ++i) {
    const OpRow& row = table[i];
    absl::StrAppendFormat(
        &text, "  %-*s %9s %5.1f %% %9s", int{kNameWidth},
        row.name.size() <= kNameWidth
            ? row.name
            : absl::StrCat(row.name.substr(0, kNameWidth - 3), "..."),
        Time(row.self_cpu_seconds), Share(row.self_cpu_seconds, cpu),
        Time(row.cpu_seconds));
    if (device > 0) {
      absl::StrAppendFormat(&text, " %9s %5.1f %%", Time(row.device_seconds),
                            Share(row.device_seconds, device));
    }
    absl::StrAppendFormat(&text, " %8d\n", row.calls);
  }
  if (table.size() > rows) {
    absl::StrAppend(&text, "  and ", table.size() - rows, " more\n");
  }
  absl::StrAppend(&text, "  self CPU ", Time(cpu), " in total");
  if (device > 0) absl::StrAppend(&text, ", device ", Time(device));
  return text;
}

}  // namespace millrace::monitoring
