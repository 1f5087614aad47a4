// Simulation runs a loader against data servers that are nothing but service
// times, in a time of its own: how the window is spread, what a second request
// is good for and what it costs come out the same on every machine.
//
// A server makes one step after the other, all its threads on one, in the order
// in which they were asked for, and forgets those of a call that is cancelled.
// Every server has a link of its own, with a delay and a rate. The consumer
// takes a batch, works on it, and takes the next one.
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
#include <functional>
#include <memory>
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
  using ServiceTime =
      std::function<absl::Duration(prefetch::ServerId, uint64_t number)>;

  // The consumer's own time for its batch `number`.
  using Work = std::function<absl::Duration(uint64_t number)>;
  // To each of the servers.
  struct Link {
    absl::Duration round_trip;
    absl::Duration batch;  // that a batch needs the link for
  };

  // `slot_bytes`: what the loader takes the batches for; 0: what they are.
  Simulation(HostLoaderOptions options, uint64_t steps, int servers,
             ServiceTime service, uint64_t slot_bytes = 0);
  ~Simulation();

  // From now on.
  void SetLink(const Link& link) { link_ = link; }
  // Servers write into headers what a batch took, none of it idle.
  void SendStageTimes() { stage_times_ = true; }
  // Lost with all that it was asked for, or there again. At the start all are.
  void SetReady(prefetch::ServerId server, bool ready);

  // The consumer takes `batches` and works on each for `work`. Every batch is
  // compared with what it must be.
  void Run(uint64_t batches, absl::Duration work);
  // The same for so long; batches.
  uint64_t RunFor(absl::Duration duration, const Work& work);

  absl::Duration now() const { return now_ - kStart; }
  // That the consumer has waited in all.
  absl::Duration waited() const { return waited_; }
  // What each batch was waited for, in order.
  const std::vector<absl::Duration>& waits() const { return waits_; }
  absl::Duration Wait(double quantile) const;
  // Steps that the server has sent, from the last Clear() on.
  uint64_t delivered(prefetch::ServerId server) const;
  uint64_t delivered() const;
  void Clear();
  HostLoader& loader() { return *loader_; }

 private:
  static constexpr absl::Time kStart = absl::UnixEpoch();

  class Transport;

  void RunWhile(const std::function<bool()>& more, const Work& work);
  // Lets happen what comes next, not later than `most`.
  void Step(absl::Time most);

  OpenResponse plan_;
  Link link_;
  bool stage_times_ = false;
  absl::Time now_ = kStart;
  absl::Time next_tick_ = kStart;
  uint64_t taken_ = 0;
  absl::Duration waited_;
  Transport* transport_ = nullptr;
  std::unique_ptr<HostLoader> loader_;
  absl::Time consumer_free_ = kStart;
  std::vector<absl::Duration> waits_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_CLIENT_PREFETCH_SIMULATION_H_
