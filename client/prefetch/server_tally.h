// ServerTally keeps the ServerTimes of each server: a whole batch counts for
// the server that delivered it. Servers that are gone keep their entry, and a
// server that comes back continues its entry.
//
// What it is not: it judges nothing.
//
// No thread, no clock. Not thread-safe.
//
//   const size_t place = tally.Count(address, header, false, begun_at, now);
//   ... the consumer has taken the batch, and waited for it ...
//   tally.CountWait(place, seconds);

#ifndef MILLRACE_CLIENT_PREFETCH_SERVER_TALLY_H_
#define MILLRACE_CLIENT_PREFETCH_SERVER_TALLY_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/diagnosis/server_times.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::prefetch {

class ServerTally {
 public:
  // Limit for servers that come and go under new names: all further servers
  // share the last entry.
  static constexpr size_t kMaxServers = 256;

  // A batch of the server at `address` began to arrive at `begun_at` and is
  // whole `now`; `shared`: in memory that the server shares. Returns the index
  // of the server in times(), which never changes.
  size_t Count(absl::string_view address, const BatchHeader& header,
               bool shared, absl::Time begun_at, absl::Time now);

  // The consumer waited `seconds` for a batch of the server at `place`.
  void CountWait(size_t place, double seconds) {
    times_[place].waited_seconds += seconds;
  }

  const std::vector<diagnosis::ServerTimes>& times() const { return times_; }

 private:
  std::vector<diagnosis::ServerTimes> times_;  // few: searched one by one
  // When the last batch of each server was whole.
  std::vector<absl::Time> last_whole_;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_SERVER_TALLY_H_
