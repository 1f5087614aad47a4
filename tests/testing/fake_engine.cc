#include "tests/testing/fake_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wire/version.h"
#include "xxhash.h"

namespace millrace::testing {
namespace {

// FakeByte repeats itself after as many bytes.
constexpr uint64_t kPeriod = 256;

void FillPayload(uint8_t* payload, uint64_t size, uint64_t epoch, uint64_t step,
                 uint32_t rank) {
  uint64_t filled = std::min(size, kPeriod);
  for (uint64_t i = 0; i < filled; ++i) {
    payload[i] = FakeByte(epoch, step, rank, i);
  }
  while (filled < size) {
    const uint64_t more = std::min(filled, size - filled);
    std::memcpy(payload + filled, payload, more);
    filled += more;
  }
}

class FakePipeline final : public pipeline::Pipeline {
 public:
  explicit FakePipeline(const FakeEngine::Config& config, PipelineSpec spec)
      : payload_bytes_(config.payload_bytes) {
    *description_.mutable_resolved_spec() = std::move(spec);
    description_.set_plan_hash(config.plan_hash);
    description_.set_fingerprint(config.fingerprint);
    description_.set_steps_per_epoch(config.steps_per_epoch);
    description_.set_samples_per_epoch(config.steps_per_epoch);
    description_.set_content_revision(1);
    description_.set_decoder_digest(config.decoder_digest);
    TensorSpec* tensor = description_.add_tensors();
    tensor->set_name("bytes");
    tensor->set_dtype(DTYPE_UINT8);
    tensor->add_sample_shape(static_cast<int64_t>(payload_bytes_));
  }

  const OpenResponse& description() const override { return description_; }

  absl::StatusOr<uint64_t> MaxPayloadBytes(uint32_t world) const override {
    if (world == 0 || world > 8) {
      return absl::InvalidArgumentError(
          absl::StrCat("world size ", world, " does not divide the batch"));
    }
    return payload_bytes_;
  }

 private:
  const uint64_t payload_bytes_;
  OpenResponse description_;
};

uint64_t DigestOf(const batch::BatchPayload& payload) {
  return XXH3_64bits(payload.data(), payload.bytes());
}

}  // namespace

uint64_t FirstWrongByte(const void* payload, uint64_t size, uint64_t epoch,
                        uint64_t step, uint32_t rank) {
  const auto* const bytes = static_cast<const uint8_t*>(payload);
  const auto right = [&](uint64_t i) {
    return bytes[i] == FakeByte(epoch, step, rank, i);
  };
  uint64_t i = 0;
  while (i < std::min(size, kPeriod) && right(i)) ++i;
  if (i < kPeriod) return i;
  if (std::memcmp(bytes, bytes + kPeriod, size - kPeriod) == 0) return size;
  while (right(i)) ++i;
  return i;
}

class FakeEngine::RunState {
 public:
  RunState(const pipeline::StepRange& range, Callbacks callbacks)
      : range(range),
        callbacks(std::move(callbacks)),
        next(range.first_step),
        end(range.first_step + range.step_count) {}

  const pipeline::StepRange range;
  Callbacks callbacks;
  uint64_t next;  // of the engine's thread
  const uint64_t end;
  std::atomic<bool> cancelled{false};
  std::atomic<ByteBudget::Ticket> ticket{0};
};

class FakeEngine::FakeRun final : public pipeline::Engine::Run {
 public:
  FakeRun(FakeEngine* engine, std::shared_ptr<RunState> state)
      : engine_(engine), state_(std::move(state)) {}
  ~FakeRun() override { Cancel(); }

  void Cancel() override {
    if (state_->cancelled.exchange(true)) return;
    // A run that waits for memory would not see it.
    engine_->Post([engine = engine_, state = state_] {
      const ByteBudget::Ticket ticket = state->ticket.exchange(0);
      if (ticket != 0 && engine->config_.budget->CancelWait(ticket)) {
        engine->Finish(state, absl::CancelledError("cancelled"));
      }
    });
  }

 private:
  FakeEngine* const engine_;
  const std::shared_ptr<RunState> state_;
};

FakeEngine::FakeEngine(Config config)
    : config_(std::move(config)),
      shared_digest_(config_.shared_payload == nullptr
                         ? 0
                         : DigestOf(*config_.shared_payload)),
      thread_([this] {
        while (true) {
          std::function<void()> task;
          {
            MutexLock lock(mu_);
            while (tasks_.empty() && !closing_) changed_.Wait(lock);
            if (tasks_.empty()) return;
            task = std::move(tasks_.front());
            tasks_.pop_front();
          }
          task();
        }
      }) {}

FakeEngine::~FakeEngine() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void FakeEngine::OpenAsync(const PipelineSpec& spec, const pipeline::Caller&,
                           std::function<bool()> wanted, Opened opened) {
  Post([this, spec, wanted = std::move(wanted), opened = std::move(opened)] {
    if (wanted != nullptr && !wanted()) {
      opened(absl::CancelledError("the client ended the call"));
    } else {
      opened(Open(spec));
    }
  });
}

void FakeEngine::Post(std::function<void()> task) {
  MutexLock lock(mu_);
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
}

absl::StatusOr<std::shared_ptr<const pipeline::Pipeline>> FakeEngine::Open(
    const PipelineSpec& spec) {
  if (!config_.open_status.ok()) return config_.open_status;
  return std::make_shared<FakePipeline>(config_, spec);
}

absl::StatusOr<std::unique_ptr<pipeline::Engine::Run>> FakeEngine::Start(
    std::shared_ptr<const pipeline::Pipeline> pipeline,
    const pipeline::StepRange& range, Callbacks callbacks) {
  if (range.rank >= range.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", range.rank, " of a world of ", range.world_size));
  }
  auto state = std::make_shared<RunState>(range, std::move(callbacks));
  Post([this, state] { Step(state); });
  return std::make_unique<FakeRun>(this, state);
}

void FakeEngine::Step(std::shared_ptr<RunState> run) {
  if (run->cancelled) return Finish(run, absl::CancelledError("cancelled"));
  if (run->next == run->end) return Finish(run, absl::OkStatus());
  if (run->next == config_.fail_at_step) {
    return Finish(run, config_.fail_status);
  }
  const auto make = [this, run](ByteBudget::Reservation reservation) {
    run->ticket = 0;
    auto payload = config_.shared_payload;
    if (payload == nullptr) {
      payload = std::make_shared<batch::BatchPayload>(
          config_.payload_bytes, std::move(reservation), config_.pool,
          run->range.memory);
      if (config_.copy_of != nullptr) {
        const std::string& block = *config_.copy_of;
        for (uint64_t at = 0; at < config_.payload_bytes; at += block.size()) {
          std::memcpy(
              payload->data() + at, block.data(),
              std::min<uint64_t>(block.size(), config_.payload_bytes - at));
        }
        std::memcpy(payload->data(), &run->next, sizeof(run->next));
      } else if (config_.fill) {
        FillPayload(payload->data(), config_.payload_bytes, run->range.epoch,
                    run->next, run->range.rank);
      }
    }
    batch::FilledBatch batch;
    batch.header.set_epoch(run->range.epoch);
    batch.header.set_step(run->next);
    batch.header.set_rank(run->range.rank);
    batch.header.set_world_size(run->range.world_size);
    batch.header.set_rows(1);
    batch.header.set_first_position(run->next * run->range.world_size +
                                    run->range.rank);
    batch.header.set_local_valid(1);
    batch.header.set_global_valid(run->range.world_size);
    batch.header.set_payload_bytes(config_.payload_bytes);
    TensorHeader* tensor = batch.header.add_tensors();
    tensor->set_name("bytes");
    tensor->set_dtype(DTYPE_UINT8);
    tensor->add_sample_shape(static_cast<int64_t>(config_.payload_bytes));
    tensor->set_bytes(config_.payload_bytes);
    if (run->range.with_payload_digest) {
      batch.header.set_payload_xxh3(config_.shared_payload != nullptr
                                        ? shared_digest_
                                        : DigestOf(*payload));
    }
    batch.payload = std::move(payload);
    ++run->next;
    ++batches_made_;
    run->callbacks.on_batch(std::move(batch));
    Step(run);
  };
  if (config_.shared_payload != nullptr) {
    // No memory to wait for: through the queue, so that runs take turns.
    Post([make] { make(ByteBudget::Reservation()); });
    return;
  }
  ByteBudget::Reservation now;
  if (config_.budget->TryReserve(config_.payload_bytes, &now)) {
    auto held = std::make_shared<ByteBudget::Reservation>(std::move(now));
    Post([make, held] { make(std::move(*held)); });
    return;
  }
  run->ticket = config_.budget->ReserveAsync(
      config_.payload_bytes, [this, make](ByteBudget::Reservation granted) {
        auto held =
            std::make_shared<ByteBudget::Reservation>(std::move(granted));
        Post([make, held] { make(std::move(*held)); });
      });
}

void FakeEngine::Finish(const std::shared_ptr<RunState>& run,
                        absl::Status status) {
  ++runs_done_;
  run->callbacks.on_done(std::move(status));
  run->callbacks = {};
}

pipeline::Engine::Stats FakeEngine::stats() const {
  Stats stats;
  stats.threads = 1;
  stats.bad_samples = 3;
  BadSample& bad = stats.recent_bad_samples.emplace_back();
  bad.set_dataset("data");
  bad.set_shard("part-2");
  bad.set_row(3);
  bad.set_times(3);
  stats.cached_pipelines = 1;
  StageTime time;
  time.set_stage("decode");
  time.set_seconds(0.5);
  stats.stages.push_back(time);
  return stats;
}

}  // namespace millrace::testing
