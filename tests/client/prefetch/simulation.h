// Simulation runs a loader against data servers that are nothing but service
// times, in a time of its own: how the window is spread, what a second request
// is good for and what it costs come out the same on every machine.
//
// A server makes one step after the other, in the order in which they were
// asked for, and forgets those of a call that is cancelled. The consumer takes
// a batch, works on it, and takes the next one.
//
// Single-threaded.
//
//   Simulation sim(options, steps, 2, [](ServerId server, uint64_t) {
//     return absl::Milliseconds(server == 1 ? 10 : 40);
//   });
//   sim.Run(1000, absl::ZeroDuration());
//   EXPECT_LT(sim.delivered(2), sim.delivered(1));

#ifndef MILLRACE_TESTS_CLIENT_PREFETCH_SIMULATION_H_
#define MILLRACE_TESTS_CLIENT_PREFETCH_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::testing {

class Simulation {
 public:
  // Of the step `number` that the server makes, counted from 0.
  using ServiceTime = std::function<absl::Duration(ServerId, uint64_t number)>;

  Simulation(HostLoaderOptions options, uint64_t steps, int servers,
             ServiceTime service);
  ~Simulation();

  // The consumer takes `batches` and works on each for `work`. Every batch is
  // compared with what it must be.
  void Run(uint64_t batches, absl::Duration work);

  absl::Duration now() const { return now_ - kStart; }
  // What each batch was waited for, in order.
  const std::vector<absl::Duration>& waits() const { return waits_; }
  absl::Duration Wait(double quantile) const;
  // Steps that the server has sent, from the last Clear() on.
  uint64_t delivered(ServerId server) const;
  uint64_t delivered() const;
  void Clear();
  HostLoader& loader() { return *loader_; }

 private:
  static constexpr absl::Time kStart = absl::UnixEpoch();

  class Transport;

  OpenResponse plan_;
  absl::Time now_ = kStart;
  Transport* transport_ = nullptr;
  std::unique_ptr<HostLoader> loader_;
  absl::Time consumer_free_ = kStart;
  std::vector<absl::Duration> waits_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_CLIENT_PREFETCH_SIMULATION_H_
