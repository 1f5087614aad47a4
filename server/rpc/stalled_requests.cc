#include "server/rpc/stalled_requests.h"

#include <algorithm>
#include <utility>

namespace millrace::rpc {
namespace {

uint64_t Minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

std::vector<StalledRequests::Found> StalledRequests::Look(
    const std::vector<RequestCounts>& connections,
    const std::map<std::string, uint64_t>& calls) {
  std::vector<Found> found;
  std::unordered_map<int64_t, uint32_t> seen;
  for (const RequestCounts& one : connections) {
    const auto running = calls.find(one.peer);
    // Two upper bounds; neither alone is sufficient. A call that was abandoned
    // before its request was complete stays in the second one forever. Calls of
    // other services (health) are not in `calls`.
    const uint64_t incomplete =
        std::min(Minus(Minus(one.begun, one.ended),
                       running == calls.end() ? 0 : running->second),
                 Minus(one.begun, one.received));
    if (incomplete == 0) continue;
    const auto before = seen_.find(one.id);
    const uint32_t looks = 1 + (before == seen_.end() ? 0 : before->second);
    if (looks < options_.looks) {
      seen[one.id] = looks;
    } else {
      found.push_back({one.peer, incomplete});
    }
  }
  seen_ = std::move(seen);
  return found;
}

}  // namespace millrace::rpc
