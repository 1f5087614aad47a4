#include "client/cli/wire_share.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "client/diagnosis/server_times.h"

namespace millrace::cli {
namespace {

// Nothing: no whole batch arrived in between.
std::optional<double> ShareOfArrivals(
    const std::vector<HostLoader::Stats>& before,
    const std::vector<HostLoader::Stats>& after) {
  double wire = 0;
  double arrived = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i].batches == 0) continue;
    const double bytes_a_batch = static_cast<double>(after[i].payload_bytes) /
                                 static_cast<double>(after[i].batches);
    wire += static_cast<double>(after[i].wire_bytes - before[i].wire_bytes);
    for (const diagnosis::ServerTimes& server :
         diagnosis::Difference(after[i].by_server, before[i].by_server)) {
      arrived += bytes_a_batch * static_cast<double>(server.batches);
    }
  }
  if (arrived <= 0) return std::nullopt;
  return std::min(1.0, wire / arrived);
}

}  // namespace

double WireShare(const std::vector<HostLoader::Stats>& before,
                 const std::vector<HostLoader::Stats>& after) {
  if (const auto share = ShareOfArrivals(before, after)) return *share;
  return ShareOfArrivals(std::vector<HostLoader::Stats>(after.size()), after)
      .value_or(0);
}

}  // namespace millrace::cli
