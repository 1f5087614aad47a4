#include "common/line_limit.h"

#include <algorithm>

namespace millrace {

void LineLimit::Refill(Place& place, SteadyTime now) const {
  if (now < place.refilled) return;
  const int64_t more = (now - place.refilled) / options_.interval;
  place.refilled += more * options_.interval;
  place.tokens = std::min<int64_t>(options_.burst, place.tokens + more);
}

std::optional<uint64_t> LineLimit::Pass(absl::string_view file, int line,
                                        SteadyTime now) {
  MutexLock lock(mu_);
  const auto [it, is_new] = places_.try_emplace({std::string(file), line},
                                                Place{options_.burst, now, 0});
  Place& place = it->second;
  Refill(place, now);
  if (place.tokens == 0) {
    ++place.left_out;
    return std::nullopt;
  }
  // The interval begins with the first line of a burst.
  if (place.tokens == options_.burst) place.refilled = now;
  --place.tokens;
  return std::exchange(place.left_out, 0);
}

std::vector<LineLimit::LeftOut> LineLimit::TakeLeftOut(SteadyTime now) {
  std::vector<LeftOut> taken;
  MutexLock lock(mu_);
  for (auto& [name, place] : places_) {
    if (place.left_out == 0) continue;
    Refill(place, now);
    if (place.tokens == 0) continue;
    --place.tokens;  // telling is a line, too
    taken.push_back({name.first, name.second, place.left_out});
    place.left_out = 0;
  }
  return taken;
}

}  // namespace millrace
