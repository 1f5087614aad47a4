// Where a batch's header says that its time went.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "server/pipeline/engine.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kReadMicros = 200;

// Every read takes a while.
std::shared_ptr<const storage::RecordSource> Slow(
    std::shared_ptr<const storage::RecordSource> base) {
  return Waiting(std::move(base), [](int64_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(kReadMicros));
    return absl::OkStatus();
  });
}

// A stage with a clock of its own: an image takes 1 ms to decode and 2 ms to
// augment, whatever it takes.
class TimedStage final : public ImageStage {
 public:
  static absl::StatusOr<std::unique_ptr<ImageStage>> Create(
      const Field& field, absl::Span<const PlacedTransform> transforms,
      const ImageStageOptions& options) {
    auto fake = FakeStage::Create(field, transforms, options);
    if (!fake.ok()) return fake.status();
    auto stage = std::make_unique<TimedStage>();
    stage->fake_ = *std::move(fake);
    return stage;
  }
  const std::vector<int64_t>& output_shape() const override {
    return fake_->output_shape();
  }
  uint64_t max_scratch_bytes() const override { return 1024; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<TimedScratch>();
  }
  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    static_cast<TimedScratch&>(scratch).images += 1;
    return fake_->Run(stored, key, scratch, out);
  }

 private:
  struct TimedScratch final : public Scratch {
    int images = 0;
    Times TakeTimes() override {
      const Times times = {images * 0.001, images * 0.002};
      images = 0;
      return times;
    }
  };
  std::unique_ptr<ImageStage> fake_;
};

double SecondsOf(const Engine& engine, const std::string& stage) {
  for (const StageTime& time : engine.stats().stages) {
    if (time.stage() == stage) return time.seconds();
  }
  ADD_FAILURE() << "no stage " << stage;
  return 0;
}

class StageMicrosTest : public testing::TestWithParam<uint32_t> {
 protected:
  std::unique_ptr<Engine> Make(DatasetCatalog catalog,
                               uint64_t budget_bytes = 64 << 20) {
    budget_ = std::make_unique<ByteBudget>(budget_bytes);
    Engine::Options options;
    options.threads = 2;
    options.read_threads = GetParam();
    options.budget = budget_.get();
    options.admission_timeout = absl::ZeroDuration();
    auto engine = CreateEngine(options, std::move(catalog), TimedStage::Create);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  std::unique_ptr<ByteBudget> budget_;
};

TEST_P(StageMicrosTest, WorkIsWhatTheThreadsDid) {
  auto engine = Make({{"images", Slow(Images(60))}});
  auto pipeline = engine->Open(
      Spec(std::string("sources { dataset: 'images' } batch_size: 10 ") +
           kImageTransforms));
  ASSERT_TRUE(pipeline.ok());
  Arrivals arrivals;
  auto run =
      engine->Start(*pipeline, {0, 0, 6, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(arrivals.AwaitDone().ok());
  StageMicros sum;
  const auto batches = arrivals.TakeBatches();
  ASSERT_EQ(batches.size(), 6u);
  for (const auto& [step, batch] : batches) {
    const StageMicros& micros = batch.header.stage_micros();
    // With threads to read, they read, and the stage's clock is all that runs
    // for the workers.
    if (GetParam() > 0) {
      EXPECT_GE(micros.read(), 10 * kReadMicros);
    }
    EXPECT_EQ(micros.decode(), 10'000u);
    EXPECT_EQ(micros.augment(), 20'000u);
    EXPECT_EQ(micros.send(), 0u);  // is not the engine's
    EXPECT_GT(batch.whole, SteadyTime());
    EXPECT_LE(batch.whole, SteadyTime::clock::now());
    sum.set_read(sum.read() + micros.read());
    sum.set_decode(sum.decode() + micros.decode());
    sum.set_augment(sum.augment() + micros.augment());
  }
  // Status says the same of all batches together, up to a microsecond each.
  EXPECT_NEAR(SecondsOf(*engine, "read"), sum.read() * 1e-6, 7e-6);
  EXPECT_NEAR(SecondsOf(*engine, "decode"), sum.decode() * 1e-6, 7e-6);
  EXPECT_NEAR(SecondsOf(*engine, "augment"), sum.augment() * 1e-6, 7e-6);
}

TEST_P(StageMicrosTest, ReadingCountsWhereverItHappens) {
  auto engine = Make({{"numbers", Slow(Numbers(60))}});
  auto pipeline =
      engine->Open(Spec("sources { dataset: 'numbers' } batch_size: 10"));
  ASSERT_TRUE(pipeline.ok());
  Arrivals arrivals;
  auto run =
      engine->Start(*pipeline, {0, 0, 6, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(arrivals.AwaitDone().ok());
  for (const auto& [step, batch] : arrivals.TakeBatches()) {
    EXPECT_GE(batch.header.stage_micros().read(), 10 * kReadMicros);
  }
}

// A thread that is busy elsewhere, then a consumer that keeps its batch.
TEST_P(StageMicrosTest, WaitsAreThoseOfTheBatch) {
  // Room for one batch at a time.
  auto engine = Make({{"numbers", Numbers(1000)}}, 16 << 10);
  auto pipeline =
      engine->Open(Spec("sources { dataset: 'numbers' } batch_size: 300"));
  ASSERT_TRUE(pipeline.ok());
  Arrivals arrivals;
  auto run =
      engine->Start(*pipeline, {0, 0, 2, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  batch::FilledBatch first = arrivals.AwaitBatch();
  const SteadyTime kept = SteadyTime::clock::now();
  EXPECT_EQ(budget_->waiting(), 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto wanted = std::chrono::duration_cast<std::chrono::microseconds>(
      SteadyTime::clock::now() - kept);
  first.payload.reset();
  const batch::FilledBatch second = arrivals.AwaitBatch();
  ASSERT_TRUE(arrivals.AwaitDone().ok());
  EXPECT_EQ(second.header.step(), 1u);
  EXPECT_GE(second.header.stage_micros().wait_memory(),
            static_cast<uint64_t>(wanted.count()));
}

INSTANTIATE_TEST_SUITE_P(ReadThreads, StageMicrosTest, testing::Values(0, 8));

}  // namespace
}  // namespace millrace::pipeline
