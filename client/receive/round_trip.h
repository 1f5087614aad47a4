// MeasureRoundTrips() measures the round trip time to servers: the time that
// the kernel saw between the first packet of a TCP connection and its answer.
// It connects, reads the time from the kernel and closes, up to three times.
// The server's program takes no part, so a busy server is not farther away.
//
// Blocks the caller for little more than the timeout. Thread-safe.
//
//   MeasureRoundTrips(kRoundTripTimeout, absl::MakeSpan(addresses));

#ifndef MILLRACE_CLIENT_RECEIVE_ROUND_TRIP_H_
#define MILLRACE_CLIENT_RECEIVE_ROUND_TRIP_H_

#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/receive/endpoint.h"

namespace millrace::receive {

// Enough to tell near from far. Longer round trips count as infinite.
inline constexpr absl::Duration kRoundTripTimeout = absl::Milliseconds(20);

// Sets Address::round_trip where it is not set, for all addresses in parallel:
// to InfiniteDuration() when no server answers within `timeout`.
void MeasureRoundTrips(absl::Duration timeout, absl::Span<Address> addresses);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_ROUND_TRIP_H_
