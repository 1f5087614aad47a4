// ServerTally keeps ServerTimes by server: each batch that is whole is counted
// at the server that brought it. A server that comes back counts on; those that
// are gone stay.
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

namespace millrace {

class ServerTally {
 public:
  // Where servers come and go under names that are never used again, the last
  // place stands for all that follow.
  static constexpr size_t kMaxServers = 256;

  // A batch of the server at `address` began to arrive at `begun_at` and is
  // whole `now`; `shared`: in memory that the server shares. Returns the
  // server's place in times(), which stays.
  size_t Count(absl::string_view address, const BatchHeader& header,
               bool shared, absl::Time begun_at, absl::Time now);

  // The consumer has waited so long for a batch of the server at `place`.
  void CountWait(size_t place, double seconds) {
    times_[place].waited_seconds += seconds;
  }

  const std::vector<ServerTimes>& times() const { return times_; }

 private:
  std::vector<ServerTimes> times_;  // few: searched one by one
  // Of each, the end of its last batch.
  std::vector<absl::Time> last_whole_;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_SERVER_TALLY_H_
