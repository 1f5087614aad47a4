// Watchdog detects that a server no longer answers new connections although its
// process lives. The process then ends, and its supervisor restarts it. A
// restart loses nothing, because servers hold no state.
//
// A probe is a connection of its own to the server's port and a call over it. A
// probe begins every `interval`. A probe that fails, or gets no answer within
// `timeout`, is a failure. After `failures` failures in a row the server is
// given up. All times are running time (running_time.h). A server whose first
// probe never succeeds (a firewall on the loopback) is not watched. A probe
// that fails because this process has no descriptors does not count.
//
// Watchdog itself is pure: one thread calls Look() about every kTick.
// WatchdogThread is that thread.
//
//   WatchdogThread watchdog({}, [&] { return NewServerProbe(...); },
//                           [](absl::Status why) { ... });

#ifndef MILLRACE_SERVER_RPC_WATCHDOG_H_
#define MILLRACE_SERVER_RPC_WATCHDOG_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/thread.h"
#include "server/rpc/running_time.h"

namespace millrace::rpc {

class Probe {
 public:
  // Gives it up.
  virtual ~Probe() = default;
  // Continues the probe without blocking. OK: the server has answered.
  // ResourceExhausted: this process could not start the probe; it does not
  // count. Empty: the probe is in flight.
  virtual std::optional<absl::Status> Poll() = 0;
};

using NewProbe = std::function<std::unique_ptr<Probe>()>;

class Watchdog {
 public:
  // Between two looks: small beside the timeout of a probe. A choice.
  static constexpr std::chrono::milliseconds kTick{250};

  struct Options {
    // With these defaults a server is given up 30 to 40 seconds after it
    // stopped answering: longer than temporary pauses, and faster than a person
    // would react.
    std::chrono::milliseconds interval{10'000};
    std::chrono::milliseconds timeout{10'000};
    uint32_t failures = 3;
  };

  Watchdog(const Options& options, NewProbe new_probe, SteadyTime now)
      : options_(options),
        new_probe_(std::move(new_probe)),
        running_(kTick, now) {}

  // Unavailable, with the last failure, when the server is to end.
  absl::Status Look(SteadyTime now);

  bool armed() const { return armed_; }  // a probe has succeeded

 private:
  void Judge(const absl::Status& result);

  const Options options_;
  const NewProbe new_probe_;
  RunningTime running_;
  // Null: no probe is in flight.
  std::unique_ptr<Probe> probe_;
  // In running time: when the last probe began, and when the next one does.
  SteadyTime::duration begun_{0};
  SteadyTime::duration next_{0};
  // Failures since the last success; those of probes that could not be made do
  // not count.
  uint32_t failures_ = 0;
  bool armed_ = false;
  absl::Status last_failure_;
};

class WatchdogThread {
 public:
  // `on_dead` is called at most once, on the thread.
  WatchdogThread(const Watchdog::Options& options, NewProbe new_probe,
                 std::function<void(absl::Status)> on_dead);
  // Stops; does not wait for a probe.
  ~WatchdogThread();

 private:
  void Run();

  // Touched by the thread alone, once it runs.
  Watchdog watchdog_;
  const std::function<void(absl::Status)> on_dead_;
  Mutex mu_;
  CondVar changed_;
  bool closing_ MR_GUARDED_BY(mu_) = false;
  // Last: it uses all of the above.
  NamedThread thread_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_WATCHDOG_H_
