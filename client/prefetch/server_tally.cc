#include "client/prefetch/server_tally.h"

#include <algorithm>
#include <string>

namespace millrace::prefetch {

size_t ServerTally::Count(absl::string_view address, const BatchHeader& header,
                          bool shared, absl::Time begun_at, absl::Time now) {
  size_t place = 0;
  while (place < times_.size() && times_[place].address != address) {
    if (++place == kMaxServers) {
      --place;
      times_[place].address = "others";
      break;
    }
  }
  if (place == times_.size()) {
    times_.emplace_back().address = std::string(address);
    last_whole_.push_back(absl::InfinitePast());
  }
  diagnosis::ServerTimes& server = times_[place];
  ++server.batches;
  if (shared) ++server.shared_batches;
  server.AddStages(header);
  // Batches that arrive at the same time count once.
  server.receive_seconds +=
      absl::ToDoubleSeconds(now - std::max(begun_at, last_whole_[place]));
  last_whole_[place] = now;
  return place;
}

}  // namespace millrace::prefetch
