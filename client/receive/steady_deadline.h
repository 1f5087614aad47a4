// Lets gRPC accept a SteadyTime as a deadline, so that setting the system's
// clock neither ends nor prolongs a wait.
//
//   queue.AsyncNext(&tag, &ok, SteadyDeadline(absl::Seconds(1)));

#ifndef MILLRACE_CLIENT_RECEIVE_STEADY_DEADLINE_H_
#define MILLRACE_CLIENT_RECEIVE_STEADY_DEADLINE_H_

#include <grpc/support/time.h>
#include <grpcpp/support/time.h>

#include <chrono>

#include "common/mutex.h"

namespace grpc {

template <>
class TimePoint<millrace::SteadyTime> {
 public:
  // The clocks may count from different times, so the remaining time is used.
  TimePoint(const millrace::SteadyTime& time)  // NOLINT: as gRPC's own
      : time_(gpr_time_add(
            gpr_now(GPR_CLOCK_MONOTONIC),
            gpr_time_from_nanos(
                std::chrono::duration_cast<std::chrono::nanoseconds>(
                    time - millrace::SteadyTime::clock::now())
                    .count(),
                GPR_TIMESPAN))) {}
  gpr_timespec raw_time() const { return time_; }

 private:
  gpr_timespec time_;
};

}  // namespace grpc

#endif  // MILLRACE_CLIENT_RECEIVE_STEADY_DEADLINE_H_
