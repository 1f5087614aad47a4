// RunMonitor measures a training run: it times the steps, reads the counters of
// loader, ranks and process, and reports to people (progress), TensorBoard and
// the summary. What it is not: it decides nothing, and none of its errors ends
// a run that has begun.
//
// One thread, the training loop's. Owns TensorBoard's file and the profiler. It
// reads other components only through `counters`.
//
//   MR_ASSIGN_OR_RETURN(auto monitor, RunMonitor::Make(options, progress,
//                                                      counters));
//   monitor->BeginEpoch({.epoch = 0, .epochs = 8, .steps = 468});
//   for each step:
//     monitor->BeginStep();
//     monitor->timer().Enter(StepPart::kData);  ...the step...
//     monitor->EndStep(batch.global_valid);
//     if (monitor->WantsLook()) monitor->Look({.loss = ..., ...});
//   RunMonitor::EpochReport report = monitor->EndEpoch();

#ifndef MILLRACE_TRAINER_MONITORING_RUN_MONITOR_H_
#define MILLRACE_TRAINER_MONITORING_RUN_MONITOR_H_

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/diagnosis/run_times.h"
#include "client/loader.h"
#include "common/host_cpu.h"
#include "trainer/monitoring/device_load.h"
#include "trainer/monitoring/event_file.h"
#include "trainer/monitoring/step_profiler.h"
#include "trainer/monitoring/step_timer.h"
#include "trainer/progress.h"

namespace millrace::monitoring {

class RunMonitor {
 public:
  struct Options {
    uint32_t rank = 0;
    // Ranks of this run on this machine. Each is assumed to use as much CPU
    // time as this one.
    uint32_t ranks_here = 1;
    c10::Device device = c10::kCPU;
    // Folder of TensorBoard's files; empty: none. Only rank 0 writes.
    std::string tensorboard;
    uint64_t log_every = 100;  // steps between points; 0: one per epoch
    // Optimiser steps before this run: the offset of TensorBoard's axis.
    uint64_t steps_before = 0;
    std::string profile;  // folder; empty: none
    uint64_t profile_first = 5;
    uint64_t profile_last = 9;
  };
  struct Counters {
    DataLoader::Stats loader;
    double allreduce_seconds = 0;  // time spent waiting for other ranks
  };
  struct Epoch {
    uint64_t epoch = 0;  // from 0
    uint64_t epochs = 0;
    uint64_t first = 0;  // first step; not 0 after a resume
    uint64_t steps = 0;
  };
  struct Point {
    uint64_t axis = 0;         // optimiser steps since the job's first start
    double loss = 0;           // of the last step
    double learning_rate = 0;  // of the last step
  };
  struct EpochReport {
    diagnosis::RunTimes times;
    std::string where;  // why the trainer waited: one line
  };

  // Fails when TensorBoard's folder cannot be written. Makes neither this
  // folder nor a file in it: a run that ends before its first point leaves
  // nothing behind.
  static absl::StatusOr<std::unique_ptr<RunMonitor>> Make(
      const Options& options, trainer::Progress& progress,
      std::function<Counters()> counters);

  StepTimer& timer() { return *timer_; }

  void BeginEpoch(const Epoch& epoch);
  void BeginStep();
  // `samples` of all ranks.
  void EndStep(uint64_t samples);
  // After EndStep(): true when progress or TensorBoard is due. Fetching the
  // loss may stop the device, so not every step is due.
  bool WantsLook();
  void Look(const Point& point);
  // Between EndStep() and Look() or BeginStep(): runs work that does not count
  // as the run's time, such as writing a checkpoint.
  void LeaveOut(const std::function<void()>& work);
  // Times of the steps since BeginEpoch(). Waits for the device.
  EpochReport EndEpoch();
  // The same for an epoch that an error or a stop ended, the last wait for a
  // batch included. Does not wait for the device, which may have failed.
  EpochReport EndUnfinishedEpoch();

  // Scalars of the epoch that has just ended, for TensorBoard. The first point
  // of the run creates the file.
  void Report(uint64_t axis, const std::vector<Scalar>& scalars);

  // Call after the run, successful or not: writes pending points.
  void End();
  // After End(): not OK when the requested profile was not written.
  const absl::Status& profile_status() const { return profiler_.status(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Snapshot {
    Clock::time_point time;
    StepTimes parts;
    Counters counters;
    double cpu_seconds = 0;
    HostCpu host;
    uint64_t steps = 0;  // batches of this run
    uint64_t samples = 0;
    double busy = 0;  // sum of samples of the device's load
    uint64_t busy_samples = 0;
  };

  RunMonitor(const Options& options, trainer::Progress& progress,
             std::function<Counters()> counters);
  bool writes_points() const {
    return options_.rank == 0 && !options_.tensorboard.empty();
  }
  Snapshot Take(bool finish);
  diagnosis::RunTimes Between(const Snapshot& from, const Snapshot& to) const;
  EpochReport ReportUpTo(const Snapshot& now);
  // Measures the start of the run, which ends now, in its first epoch.
  void EndStart(Clock::time_point now);
  void SampleLoad();

  const Options options_;
  trainer::Progress& progress_;
  const std::function<Counters()> counters_;
  const std::unique_ptr<StepTimer> timer_;
  const std::unique_ptr<DeviceLoad> load_;  // null: none
  const uint32_t cpus_;
  StepProfiler profiler_;
  std::unique_ptr<EventFile> events_;  // null: none, or no point yet
  bool events_failed_ = false;         // and that was logged

  Epoch epoch_;
  uint64_t step_ = 0;     // of the epoch, done
  uint64_t steps_ = 0;    // batches of this run
  uint64_t samples_ = 0;  // of this run
  double busy_ = 0;
  uint64_t busy_samples_ = 0;
  Clock::time_point next_load_;
  uint64_t pinned_bytes_ = 0;  // max of the epoch's looks
  Snapshot epoch_start_;
  Snapshot last_point_;
  // Of the run; counts in its first epoch.
  bool start_is_over_ = false;
  double start_seconds_ = 0;
  double start_data_seconds_ = 0;
  bool progress_wants_ = false;
  bool point_wanted_ = false;
};

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_RUN_MONITOR_H_
