#include "client/prefetch/request_budget.h"

#include <algorithm>
#include <cmath>

namespace millrace::prefetch {

uint64_t RequestBudget::Room() const {
  return std::min(window, slots - std::min(held, slots));
}

uint64_t RequestBudget::Servers() const {
  return std::max<uint32_t>(1, servers);
}

uint64_t RequestBudget::Free() const {
  const uint64_t requested = end > next ? end - next : 0;
  const uint64_t used = requested + held;
  return std::min<uint64_t>(window - std::min<uint64_t>(requested, window),
                            slots - std::min<uint64_t>(used, slots));
}

uint64_t RequestBudget::Chunk(double share) const {
  const double count = static_cast<double>(Servers());
  const double chunk = static_cast<double>(Room()) / 2;
  // For equal servers exactly the size that RoomForCall() waits for.
  const double part = std::abs(share * count - 1) < 0.2 ? 1 / count : share;
  return std::max<uint64_t>(1, static_cast<uint64_t>(chunk * part + 1e-9));
}

bool RequestBudget::RoomForCall() const {
  if (end >= total) return false;
  const uint64_t chunk = std::min(Room() / (2 * Servers()), total - end);
  return Free() >= std::max<uint64_t>(1, chunk);
}

}  // namespace millrace::prefetch
