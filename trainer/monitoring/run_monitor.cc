#include "trainer/monitoring/run_monitor.h"

#include <algorithm>
#include <utility>

#include "client/diagnosis/wait_verdict.h"
#include "common/cgroup.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "trainer/files.h"
#include "trainer/monitoring/resource_usage.h"
#include "trainer/monitoring/torch_step_timer.h"

namespace millrace::monitoring {
namespace {

// Time between two queries to NVML.
constexpr std::chrono::seconds kLoadEvery(1);
// RunTimes::start_seconds, at least.
constexpr std::chrono::seconds kStart(1);

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::unique_ptr<DeviceLoad> OpenLoad(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  return DeviceLoad::Open(device.has_index() ? device.index() : 0);
}

}  // namespace

RunMonitor::RunMonitor(const Options& options, trainer::Progress& progress,
                       std::function<Counters()> counters)
    : options_(options),
      progress_(progress),
      counters_(std::move(counters)),
      timer_(NewStepTimer(options.device)),
      load_(OpenLoad(options.device)),
      cpus_(AvailableCpus()),
      profiler_({.folder = options.profile,
                 .first = options.profile_first,
                 .last = options.profile_last,
                 .rank = options.rank,
                 .cuda = options.device.is_cuda()}) {}

absl::StatusOr<std::unique_ptr<RunMonitor>> RunMonitor::Make(
    const Options& options, trainer::Progress& progress,
    std::function<Counters()> counters) {
  std::unique_ptr<RunMonitor> monitor(
      new RunMonitor(options, progress, std::move(counters)));
  if (monitor->writes_points()) {
    MR_RETURN_IF_ERROR(
        trainer::CheckFolder("--tensorboard", options.tensorboard));
  }
  return monitor;
}

RunMonitor::Snapshot RunMonitor::Take(bool finish) {
  Snapshot now;
  now.parts = finish ? timer_->Finish() : timer_->times();
  now.time = Clock::now();
  now.counters = counters_();
  now.cpu_seconds = ProcessCpuSeconds();
  now.host = ReadHostCpu();
  now.steps = steps_;
  now.samples = samples_;
  now.busy = busy_;
  now.busy_samples = busy_samples_;
  pinned_bytes_ = std::max(pinned_bytes_, now.counters.loader.pinned_bytes);
  return now;
}

diagnosis::RunTimes RunMonitor::Between(const Snapshot& from,
                                        const Snapshot& to) const {
  diagnosis::RunTimes times;
  times.seconds = Seconds(to.time - from.time);
  times.steps = to.steps - from.steps;
  times.samples = to.samples - from.samples;
  const DataLoader::Stats& before = from.counters.loader;
  const DataLoader::Stats& after = to.counters.loader;
  times.data_seconds = after.wait_seconds - before.wait_seconds;
  times.copy_seconds = after.copy_seconds - before.copy_seconds;
  times.device_copy_seconds =
      after.device_copy_seconds - before.device_copy_seconds;
  const StepTimes parts = to.parts - from.parts;
  // A device's times arrive after its steps: the known ones represent all.
  const double all = parts.steps > 0 ? static_cast<double>(times.steps) /
                                           static_cast<double>(parts.steps)
                                     : 0;
  times.forward_seconds = all * parts.of(StepPart::kForward);
  times.backward_seconds = all * parts.of(StepPart::kBackward);
  times.optimizer_seconds = all * parts.of(StepPart::kOptimizer);
  times.ranks_seconds = all * parts.of(StepPart::kRanks);
  times.allreduce_seconds =
      to.counters.allreduce_seconds - from.counters.allreduce_seconds;
  times.cpu_seconds = to.cpu_seconds - from.cpu_seconds;
  times.cpus = cpus_;
  times.other_cpu_seconds = OtherCpuSeconds(
      from.host, to.host, times.cpu_seconds * options_.ranks_here);
  times.machine_cpus = to.host.cpus;
  times.pinned_bytes = pinned_bytes_;
  if (to.busy_samples > from.busy_samples) {
    times.device_busy =
        (to.busy - from.busy) /
        static_cast<double>(to.busy_samples - from.busy_samples);
    times.device_busy_source = "nvml";
  } else {
    times.device_busy = std::min(1.0, times.share(times.compute_seconds()));
  }
  return times;
}

void RunMonitor::BeginEpoch(const Epoch& epoch) {
  epoch_ = epoch;
  step_ = epoch.first;
  pinned_bytes_ = 0;
  epoch_start_ = Take(/*finish=*/true);
  last_point_ = epoch_start_;
}

void RunMonitor::BeginStep() {
  profiler_.BeforeStep(steps_ + 1);
  timer_->BeginStep(steps_ + 1);
}

void RunMonitor::EndStep(uint64_t samples) {
  timer_->EndStep();
  ++step_;
  ++steps_;
  samples_ += samples;
  SampleLoad();
  if (const auto now = Clock::now();
      !start_is_over_ && now - epoch_start_.time >= kStart) {
    EndStart(now);
  }
  if (const auto text = profiler_.AfterStep(steps_); text.has_value()) {
    progress_.Line(*text);
  }
}

void RunMonitor::SampleLoad() {
  if (load_ == nullptr) return;
  const Clock::time_point now = Clock::now();
  if (now < next_load_) return;
  next_load_ = now + kLoadEvery;
  const std::optional<double> busy = load_->Busy();
  if (!busy.has_value()) return;
  busy_ += *busy;
  ++busy_samples_;
}

bool RunMonitor::WantsLook() {
  progress_wants_ = progress_.Wants(step_, epoch_.steps);
  point_wanted_ = writes_points() &&
                  (step_ == epoch_.steps ||
                   (options_.log_every > 0 && step_ % options_.log_every == 0));
  return progress_wants_ || point_wanted_;
}

void RunMonitor::Look(const Point& point) {
  const Snapshot now = Take(/*finish=*/false);
  if (progress_wants_) {
    const diagnosis::RunTimes epoch = Between(epoch_start_, now);
    const double rate = epoch.rate(static_cast<double>(epoch.samples));
    const double steps_left = static_cast<double>(epoch_.steps - step_);
    progress_.Step({.epoch = epoch_.epoch,
                    .epochs = epoch_.epochs,
                    .step = step_,
                    .steps = epoch_.steps,
                    .loss = point.loss,
                    .samples_per_second = rate,
                    .stall_share = epoch.share(epoch.data_seconds),
                    .seconds_left = epoch.steps > 0
                                        ? steps_left * epoch.seconds /
                                              static_cast<double>(epoch.steps)
                                        : 0});
  }
  if (!point_wanted_) return;
  const diagnosis::RunTimes t = Between(last_point_, now);
  last_point_ = now;
  if (t.steps == 0) return;
  const double per_step = 1e3 / static_cast<double>(t.steps);  // in ms
  std::vector<Scalar> scalars = {
      {"Loss/train", point.loss},
      {"Train/learning_rate", point.learning_rate},
      {"Train/samples_per_second", t.rate(static_cast<double>(t.samples))},
      {"Time/step_ms", per_step * t.seconds},
      {"Time/data_ms", per_step * t.data_seconds},
      {"Time/copy_ms",
       per_step * std::max(t.copy_seconds, t.device_copy_seconds)},
      {"Time/compute_ms", per_step * t.compute_seconds()},
      {"Time/forward_ms", per_step * t.forward_seconds},
      {"Time/backward_ms", per_step * t.backward_seconds},
      {"Time/optimizer_ms", per_step * t.optimizer_seconds},
      {"Time/allreduce_ms", per_step * t.allreduce_seconds},
      {"Load/stall_percent", 100 * t.share(t.data_seconds)},
      {"Load/device_busy_percent", 100 * t.device_busy},
      {"Load/cpu_percent", 100 * t.rate(t.cpu_seconds)},
      {"Load/pinned_bytes", static_cast<double>(t.pinned_bytes)}};
  Report(point.axis, scalars);
}

void RunMonitor::LeaveOut(const std::function<void()>& work) {
  const Clock::time_point begun = Clock::now();
  const double cpu_before = ProcessCpuSeconds();
  const double host_before = ReadHostCpu().busy_seconds;
  work();
  const Clock::duration took = Clock::now() - begun;
  const double cpu_took = ProcessCpuSeconds() - cpu_before;
  const double host_took = ReadHostCpu().busy_seconds - host_before;
  for (Snapshot* since : {&epoch_start_, &last_point_}) {
    since->time += took;
    since->cpu_seconds += cpu_took;
    since->host.busy_seconds += host_took;
  }
}

void RunMonitor::EndStart(Clock::time_point now) {
  start_is_over_ = true;
  start_seconds_ = Seconds(now - epoch_start_.time);
  start_data_seconds_ = counters_().loader.wait_seconds -
                        epoch_start_.counters.loader.wait_seconds;
}

RunMonitor::EpochReport RunMonitor::EndEpoch() {
  return ReportUpTo(Take(/*finish=*/true));
}

RunMonitor::EpochReport RunMonitor::EndUnfinishedEpoch() {
  return ReportUpTo(Take(/*finish=*/false));
}

RunMonitor::EpochReport RunMonitor::ReportUpTo(const Snapshot& now) {
  EpochReport report;
  report.times = Between(epoch_start_, now);
  // The first epoch may be shorter.
  if (!start_is_over_) EndStart(now.time);
  report.times.start_seconds = std::exchange(start_seconds_, 0);
  report.times.start_data_seconds = std::exchange(start_data_seconds_, 0);
  const diagnosis::WaitVerdict verdict = diagnosis::JudgeWait(
      diagnosis::WaitBetween(epoch_start_.counters.loader, now.counters.loader,
                             report.times.seconds));
  report.times.wait_cause = verdict.cause;
  report.where = verdict.text;
  return report;
}

void RunMonitor::Report(uint64_t axis, const std::vector<Scalar>& scalars) {
  if (!writes_points()) return;
  if (events_ == nullptr) {
    if (events_failed_) return;
    EventFile::Options file;
    if (options_.steps_before > 0) file.first_step = options_.steps_before + 1;
    absl::StatusOr<std::unique_ptr<EventFile>> made =
        EventFile::Create(options_.tensorboard, file);
    if (!made.ok()) {
      events_failed_ = true;
      MR_LOG(WARNING) << "--tensorboard: " << made.status().message()
                      << "; training continues without TensorBoard";
      return;
    }
    events_ = *std::move(made);
  }
  const absl::Status written = events_->Add(axis, scalars);
  if (written.ok() || events_failed_) return;
  events_failed_ = true;
  MR_LOG(WARNING) << "--tensorboard: " << written.message()
                  << "; training continues, and the write is tried again";
}

void RunMonitor::End() {
  timer_->EndStep();  // that an error may have left open
  if (const auto text = profiler_.AtEnd(steps_); text.has_value()) {
    progress_.Line(*text);
  }
  if (events_ == nullptr) return;
  const absl::Status written = events_->Flush();
  const std::string missing = events_->MissingText();
  if (missing.empty()) return;
  MR_LOG(WARNING) << "--tensorboard: " << missing << "; "
                  << (written.ok() ? "the disk was full for too long"
                                   : written.message());
}

}  // namespace millrace::monitoring
