// Measures how far servers are away: the time that the kernel saw between the
// first packet of a TCP connection and its answer. Connects, asks the kernel,
// closes, up to three times; the server's program takes no part in it, so a
// busy one is no farther away.
//
// Blocks the caller, for little more than the timeout. Thread-safe.

#ifndef MILLRACE_CLIENT_RECEIVE_ROUND_TRIP_H_
#define MILLRACE_CLIENT_RECEIVE_ROUND_TRIP_H_

#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/receive/endpoint.h"

namespace millrace {

// Who takes longer is not near, which is all that callers want to know.
inline constexpr absl::Duration kRoundTripTimeout = absl::Milliseconds(20);

// Sets Address::round_trip of those that have none, all at once: to
// InfiniteDuration() where no server answers within `timeout`.
void MeasureRoundTrips(absl::Duration timeout, absl::Span<Address> addresses);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_ROUND_TRIP_H_
