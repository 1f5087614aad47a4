// A time for sentences that people read, without the nanoseconds of measured
// times.
//
//   DurationText(absl::Nanoseconds(3'000'152'293))  ->  "3s"
//   DurationText(absl::Microseconds(12'345))        ->  "12ms"

#ifndef MILLRACE_COMMON_DURATION_TEXT_H_
#define MILLRACE_COMMON_DURATION_TEXT_H_

#include <string>

#include "absl/time/time.h"

namespace millrace {

// Cut down to milliseconds, or to microseconds where there is no millisecond.
inline std::string DurationText(absl::Duration time) {
  const absl::Duration unit = absl::AbsDuration(time) < absl::Milliseconds(1)
                                  ? absl::Microseconds(1)
                                  : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(time, unit));
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_DURATION_TEXT_H_
