// What the engine's tests share: datasets in memory, an image stage that
// computes something cheap, and a place where a run's batches arrive.

#ifndef MILLRACE_TESTS_SERVER_PIPELINE_ENGINE_FIXTURE_H_
#define MILLRACE_TESTS_SERVER_PIPELINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "proto/spec_text.h"
#include "server/pipeline/engine_core.h"
#include "tests/server/pipeline/waiting_source.h"
#include "tests/server/storage/memory/memory_source.h"

namespace millrace::pipeline {

// Opened once; waiting before that blocks.
class Gate {
 public:
  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Pass() {
    MutexLock lock(mu_);
    ++waiting_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(lock);
    --waiting_;
  }
  // Until `n` threads stand before the gate.
  void AwaitWaiting(int n) {
    MutexLock lock(mu_);
    while (waiting_ < n) changed_.Wait(lock);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ MR_GUARDED_BY(mu_) = false;
  int waiting_ MR_GUARDED_BY(mu_) = 0;
};

// Lets every read pass a gate first; says that it does not wait.
inline std::shared_ptr<const storage::RecordSource> Gated(
    std::shared_ptr<const storage::RecordSource> base, Gate* gate) {
  return Waiting(
      std::move(base),
      [gate](int64_t) {
        gate->Pass();
        return absl::OkStatus();
      },
      storage::ReadWait::kNever);
}

// 4 x 4 x 1 bytes of sample bytes, key and scratch size; "bad..." is refused.
class FakeStage final : public ImageStage {
 public:
  static absl::StatusOr<std::unique_ptr<ImageStage>> Create(
      const Field&, absl::Span<const PlacedTransform>,
      const ImageStageOptions&) {
    return std::make_unique<FakeStage>();
  }
  const std::vector<int64_t>& output_shape() const override { return shape_; }
  uint64_t max_scratch_bytes() const override { return 1024; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<FakeScratch>();
  }
  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t key, Scratch&,
                   absl::Span<uint8_t> out) const override {
    // Left behind by a failure: must not be seen in any batch.
    std::memset(out.data(), 0xee, out.size());
    if (stored.size() >= 3 && std::memcmp(stored.data(), "bad", 3) == 0) {
      return absl::DataLossError("the bytes are no image");
    }
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<uint8_t>((key >> (i % 8 * 8)) +
                                    stored[i % stored.size()] + i);
    }
    return absl::OkStatus();
  }

 private:
  class FakeScratch final : public Scratch {
   public:
    Times TakeTimes() override { return {}; }
  };
  const std::vector<int64_t> shape_ = {4, 4, 1};
};

inline std::string Int64Bytes(int64_t value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// "x" uint8 [6] = index and its square, "label" class of 10.
inline std::shared_ptr<const storage::RecordSource> Numbers(int64_t samples) {
  DatasetInfo info;
  Field& x = *info.mutable_schema()->add_fields();
  x.set_name("x");
  x.set_kind(FIELD_KIND_TENSOR);
  x.set_dtype(DTYPE_UINT8);
  x.add_shape(6);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    std::string bytes = Int64Bytes(i).substr(0, 3);
    bytes += Int64Bytes(i * i).substr(0, 3);
    all.push_back({bytes, Int64Bytes(i % 10)});
  }
  return storage::NewMemorySource(info, std::move(all));
}

// "image" encoded, in shards of 10; those in `bad` are damaged.
inline std::shared_ptr<const storage::RecordSource> Images(
    int64_t samples, const std::vector<int64_t>& bad = {}) {
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    all.push_back({"image " + std::to_string(i), Int64Bytes(i % 10)});
    if (i % 10 == 0) {
      ShardInfo& shard = *info.add_shards();
      shard.set_name("part-" + std::to_string(i / 10));
      shard.set_first_sample(i);
      shard.set_samples(std::min<int64_t>(10, samples - i));
    }
  }
  for (int64_t i : bad) all[i][0] = "bad " + std::to_string(i);
  return storage::NewMemorySource(info, std::move(all));
}

constexpr char kImageTransforms[] =
    "transforms { decode_image { color: GRAY } } "
    "transforms { random_resized_crop { height: 4 width: 4 } } "
    "transforms { normalize { mean: 0.5 stddev: 0.25 } } ";

inline PipelineSpec Spec(const std::string& text) {
  auto spec = ParseSpecText(text, "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : PipelineSpec();
}

// Where the callbacks of one run arrive.
class Arrivals {
 public:
  Engine::Callbacks callbacks() {
    return {[this](batch::FilledBatch batch) {
              MutexLock lock(mu_);
              EXPECT_FALSE(done_) << "a batch after on_done";
              batches_.push_back(std::move(batch));
              changed_.NotifyAll();
            },
            [this](absl::Status status) {
              MutexLock lock(mu_);
              EXPECT_FALSE(done_) << "on_done twice";
              done_ = true;
              status_ = std::move(status);
              changed_.NotifyAll();
            }};
  }

  absl::Status AwaitDone() {
    MutexLock lock(mu_);
    while (!done_) changed_.Wait(lock);
    return status_;
  }

  bool done() {
    MutexLock lock(mu_);
    return done_;
  }

  batch::FilledBatch AwaitBatch() {
    MutexLock lock(mu_);
    while (batches_.empty()) changed_.Wait(lock);
    batch::FilledBatch batch = std::move(batches_.front());
    batches_.erase(batches_.begin());
    return batch;
  }

  // False: the run is done and its batches have been taken.
  bool AwaitBatchOrDone(batch::FilledBatch* batch) {
    MutexLock lock(mu_);
    while (batches_.empty() && !done_) changed_.Wait(lock);
    if (batches_.empty()) return false;
    *batch = std::move(batches_.front());
    batches_.erase(batches_.begin());
    return true;
  }

  // After AwaitDone; by step.
  std::map<uint64_t, batch::FilledBatch> TakeBatches() {
    std::vector<batch::FilledBatch> batches;
    {
      MutexLock lock(mu_);
      batches.swap(batches_);
    }
    std::map<uint64_t, batch::FilledBatch> by_step;
    for (batch::FilledBatch& batch : batches) {
      const uint64_t step = batch.header.step();
      EXPECT_TRUE(by_step.emplace(step, std::move(batch)).second);
    }
    return by_step;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<batch::FilledBatch> batches_ MR_GUARDED_BY(mu_);
  bool done_ MR_GUARDED_BY(mu_) = false;
  absl::Status status_ MR_GUARDED_BY(mu_);
};

inline std::string PayloadText(const batch::FilledBatch& batch) {
  return std::string(reinterpret_cast<const char*>(batch.payload->data()),
                     batch.payload->bytes());
}

template <typename T>
std::vector<T> TensorValues(const batch::FilledBatch& batch,
                            const std::string& name) {
  for (const TensorHeader& tensor : batch.header.tensors()) {
    if (tensor.name() != name) continue;
    std::vector<T> values(tensor.bytes() / sizeof(T));
    if (!values.empty()) {
      std::memcpy(values.data(), batch.payload->data() + tensor.offset(),
                  tensor.bytes());
    }
    return values;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// An engine with a budget of its own, and runs over it.
class EngineFixture : public testing::Test {
 protected:
  // `options.budget` is filled in. The engine before this one is gone, and so
  // are its batches.
  std::unique_ptr<Engine> Create(Engine::Options options,
                                 DatasetCatalog catalog,
                                 uint64_t budget_bytes = 64 << 20,
                                 EngineTuning tuning = {}) {
    budget_ = std::make_unique<ByteBudget>(budget_bytes);
    options.budget = budget_.get();
    auto engine = CreateEngine(options, std::move(catalog), FakeStage::Create,
                               std::move(tuning));
    EXPECT_TRUE(engine.ok()) << engine.status();
    idle_use_ = budget_->used();
    return *std::move(engine);
  }

  std::shared_ptr<const Pipeline> Open(Engine& engine,
                                       const std::string& text) {
    auto pipeline = engine.Open(Spec(text));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return pipeline.ok() ? *pipeline : nullptr;
  }

  // All batches of a range, by step.
  std::map<uint64_t, batch::FilledBatch> RunAll(Engine& engine,
                                                const std::string& text,
                                                StepRange range = {}) {
    const auto pipeline = Open(engine, text);
    if (range.step_count == 0) {
      range.step_count = pipeline->description().steps_per_epoch();
    }
    Arrivals arrivals;
    auto run = engine.Start(pipeline, range, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    const absl::Status status = arrivals.AwaitDone();
    EXPECT_TRUE(status.ok()) << status;
    return arrivals.TakeBatches();
  }

  // Threads finish the rows of cancelled runs, and tell them of their end,
  // while the engine waits for them. Of a dataset "numbers" of 1000 samples,
  // whose first `threads` reads stand before the gate.
  void EndRunsWhileTheEngineIsDestroyed(std::unique_ptr<Engine> engine,
                                        Gate& gate, int threads) {
    const auto pipeline =
        Open(*engine, "sources { dataset: 'numbers' } batch_size: 100");
    Arrivals arrivals[3];
    std::vector<std::unique_ptr<Engine::Run>> runs;
    for (Arrivals& each : arrivals) {
      auto run =
          engine->Start(pipeline, {0, 0, 10, 0, 1, false}, each.callbacks());
      ASSERT_TRUE(run.ok()) << run.status();
      runs.push_back(*std::move(run));
    }
    gate.AwaitWaiting(threads);
    for (const auto& run : runs) run->Cancel();
    std::thread destroyer([&engine] { engine.reset(); });
    gate.Open();
    destroyer.join();
    for (Arrivals& each : arrivals) {
      // No thread is left: what has not been called by now never will be.
      ASSERT_TRUE(each.done());
      EXPECT_EQ(each.AwaitDone().code(), absl::StatusCode::kCancelled);
      EXPECT_TRUE(each.TakeBatches().empty());
    }
    EXPECT_EQ(budget_->used(), 0u);
  }

  // Many runs of 20 steps each, consumers on other threads, some cancelled.
  void RunMany(Engine& engine, const std::vector<std::string>& texts) {
    std::vector<std::thread> consumers;
    for (size_t i = 0; i < 6; ++i) {
      consumers.emplace_back([&, i] {
        const auto pipeline = Open(engine, texts[i % texts.size()]);
        for (uint64_t repeat = 0; repeat < 5; ++repeat) {
          Arrivals arrivals;
          auto run = engine.Start(pipeline, {repeat, 0, 20, 0, 1, false},
                                  arrivals.callbacks());
          ASSERT_TRUE(run.ok());
          if (i >= 4 && repeat % 2) {
            arrivals.AwaitBatch();
            (*run)->Cancel();
            const auto code = arrivals.AwaitDone().code();
            EXPECT_TRUE(code == absl::StatusCode::kCancelled ||
                        code == absl::StatusCode::kOk);
          } else {
            for (int b = 0; b < 20; ++b) arrivals.AwaitBatch();
            EXPECT_TRUE(arrivals.AwaitDone().ok());
          }
        }
      });
    }
    for (std::thread& consumer : consumers) consumer.join();
    EXPECT_EQ(budget_->used(), idle_use_);
    EXPECT_LE(budget_->peak(), budget_->capacity());
    EXPECT_EQ(budget_->waiting(), 0u);
  }

  std::unique_ptr<ByteBudget> budget_;
  uint64_t idle_use_ = 0;  // of the budget without a batch
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_SERVER_PIPELINE_ENGINE_FIXTURE_H_
