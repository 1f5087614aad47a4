#include "tests/bench/spec_runner.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "common/byte_budget.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "server/pipeline/engine.h"

namespace millrace {
namespace {

constexpr char kName[] = "bench";
// Batches that are asked for ahead, so that no worker waits at the end of an
// epoch.
constexpr uint64_t kAhead = 32;

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return t.tv_sec + t.tv_usec * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class EngineRunner : public SpecRunner {
 public:
  EngineRunner(const Options& options)
      : options_(options), budget_(options.memory_bytes) {}

  absl::Status Open(std::shared_ptr<const storage::RecordSource> source,
                    PipelineSpec spec) {
    pipeline::Engine::Options engine_options;
    engine_options.threads = options_.threads;
    engine_options.read_threads = options_.read_threads;
    engine_options.budget = &budget_;
    engine_options.admission_timeout = absl::ZeroDuration();
    MR_ASSIGN_OR_RETURN(
        engine_,
        pipeline::Engine::Create(engine_options, {{kName, std::move(source)}}));
    if (spec.sources_size() == 0) spec.add_sources();
    spec.mutable_sources(0)->set_dataset(kName);
    if (spec.batch_size() == 0) spec.set_batch_size(64);
    MR_ASSIGN_OR_RETURN(pipeline_, engine_->Open(spec));
    return pipeline_->MaxPayloadBytes(1).status();
  }

  absl::StatusOr<Rate> Measure(absl::Duration duration) override {
    const auto length = absl::ToChronoNanoseconds(duration);
    {
      MutexLock lock(mu_);
      finished_ = 0;
      failure_ = absl::OkStatus();
    }
    std::deque<std::unique_ptr<pipeline::Engine::Run>> runs;
    absl::Status failed;
    Clock::time_point start;
    double cpu = 0;
    uint64_t asked = 0;
    Rate rate;
    for (bool started = false;;) {
      // The runs of a few epochs are in flight at a time; the engine takes
      // them in turn.
      while (true) {
        {
          MutexLock lock(mu_);
          if (asked >= finished_ + kAhead) break;
        }
        auto run = Start(steps());
        if (!run.ok()) {
          failed = run.status();
          break;
        }
        runs.push_back(*std::move(run));
        asked += steps();
      }
      MutexLock lock(mu_);
      const uint64_t before = finished_;
      while (finished_ == before && failure_.ok() && failed.ok()) {
        changed_.Wait(lock);
      }
      if (!failure_.ok()) failed = failure_;
      if (!failed.ok()) break;
      if (!started && finished_ >= options_.warm_batches) {
        started = true;
        start = last_;
        cpu = last_cpu_;
        samples_ = 0;
        payload_bytes_ = 0;
        continue;
      }
      if (started && last_ - start >= length && samples_ > 0) {
        rate.seconds = std::chrono::duration<double>(last_ - start).count();
        rate.samples = samples_;
        rate.payload_bytes = payload_bytes_;
        rate.cpu_seconds = last_cpu_ - cpu;
        break;
      }
    }
    for (auto& run : runs) run->Cancel();
    MutexLock lock(mu_);
    while (running_ > 0) changed_.Wait(lock);
    MR_RETURN_IF_ERROR(failed);
    return rate;
  }

  absl::StatusOr<Rate> Run(uint64_t batches) override {
    {
      MutexLock lock(mu_);
      failure_ = absl::OkStatus();
      samples_ = 0;
      payload_bytes_ = 0;
    }
    const Clock::time_point start = Clock::now();
    const double cpu = CpuSeconds();
    while (batches > 0) {
      const uint64_t count = std::min(batches, steps());
      MR_ASSIGN_OR_RETURN(const auto run, Start(count));
      batches -= count;
      MutexLock lock(mu_);
      while (running_ > 0) changed_.Wait(lock);
      MR_RETURN_IF_ERROR(failure_);
    }
    Rate rate;
    rate.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    rate.cpu_seconds = CpuSeconds() - cpu;
    MutexLock lock(mu_);
    rate.samples = samples_;
    rate.payload_bytes = payload_bytes_;
    return rate;
  }

  const PipelineSpec& resolved_spec() const override {
    return pipeline_->description().resolved_spec();
  }

 private:
  using Clock = std::chrono::steady_clock;

  uint64_t steps() const { return pipeline_->description().steps_per_epoch(); }

  // Steps [0, count) of the next epoch.
  absl::StatusOr<std::unique_ptr<pipeline::Engine::Run>> Start(uint64_t count) {
    pipeline::Engine::Callbacks callbacks;
    callbacks.on_batch = [this](batch::FilledBatch batch) {
      MutexLock lock(mu_);
      ++finished_;
      samples_ += resolved_spec().batch_size();
      payload_bytes_ += batch.payload->bytes();
      last_ = Clock::now();
      last_cpu_ = CpuSeconds();
      changed_.NotifyAll();
    };
    callbacks.on_done = [this](absl::Status status) {
      MutexLock lock(mu_);
      --running_;
      if (!status.ok() && !absl::IsCancelled(status)) failure_ = status;
      changed_.NotifyAll();
    };
    {
      MutexLock lock(mu_);
      ++running_;
    }
    auto run = engine_->Start(pipeline_, {epoch_++, 0, count, 0, 1, false},
                              std::move(callbacks));
    if (!run.ok()) {
      MutexLock lock(mu_);
      --running_;
    }
    return run;
  }

  const Options options_;
  ByteBudget budget_;
  uint64_t epoch_ = 0;

  Mutex mu_;
  CondVar changed_;
  uint64_t finished_ MR_GUARDED_BY(mu_) = 0;
  uint64_t samples_ MR_GUARDED_BY(mu_) = 0;
  uint64_t payload_bytes_ MR_GUARDED_BY(mu_) = 0;
  int running_ MR_GUARDED_BY(mu_) = 0;
  absl::Status failure_ MR_GUARDED_BY(mu_);
  // When the last batch was finished, and the process's CPU seconds then.
  Clock::time_point last_ MR_GUARDED_BY(mu_);
  double last_cpu_ MR_GUARDED_BY(mu_) = 0;

  // Last: their threads use what is above.
  std::unique_ptr<pipeline::Engine> engine_;
  std::shared_ptr<const pipeline::Pipeline> pipeline_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SpecRunner>> SpecRunner::Create(
    std::shared_ptr<const storage::RecordSource> source, PipelineSpec spec,
    const Options& options) {
  auto runner = std::make_unique<EngineRunner>(options);
  MR_RETURN_IF_ERROR(runner->Open(std::move(source), std::move(spec)));
  return runner;
}

}  // namespace millrace
