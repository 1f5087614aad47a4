// The engine while its numbers of threads change under it: the same bytes, no
// byte of the budget too many, nothing left behind.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/pipeline/engine.h"
#include "server/pipeline/threads/thread_tuner.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

// Any number, each time another.
class RandomPolicy final : public ThreadPolicy {
 public:
  ThreadDecision Decide(const ThreadMeasurement& measured) override {
    ThreadDecision decision;
    decision.workers = 1 + Next() % measured.workers.max_threads;
    // Hundreds would only stand in line for the little room that there is.
    decision.readers = 1 + Next() % std::min(24u, measured.readers.max_threads);
    decision.workers_reason = decision.readers_reason = "of chance";
    Check(measured);
    decisions.fetch_add(1);
    decisions.notify_all();
    return decision;
  }

  void Await(uint64_t number) {
    for (uint64_t now = decisions; now < number; now = decisions) {
      decisions.wait(now);
    }
  }

  std::atomic<uint64_t> decisions{0};

 private:
  uint64_t Next() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return random_ >> 33;
  }

  static void Check(const ThreadMeasurement& m) {
    EXPECT_GT(m.seconds, 0);
    EXPECT_GE(m.cpus, 1);
    EXPECT_GE(m.workers.threads, 1u);
    EXPECT_LE(m.workers.threads, m.workers.max_threads);
    EXPECT_GE(m.workers.thread_seconds, 0);
    EXPECT_GE(m.workers.idle_seconds, 0);
    if (m.workers.knows_cpu) {
      EXPECT_GE(m.workers.cpu_seconds, 0);
      EXPECT_GE(m.workers.delayed_seconds, 0);
    }
    EXPECT_GE(m.readers.thread_seconds, 0);
    EXPECT_GE(m.readers.idle_seconds, 0);
    EXPECT_GE(m.readers.blocked_seconds, 0);
    EXPECT_GE(m.readers.read_seconds, 0);
  }

  uint64_t random_ = 1;  // of the timer's thread
};

// Says that reading waits, and now and then lets another thread go first.
std::shared_ptr<const storage::RecordSource> Slow(
    std::shared_ptr<const storage::RecordSource> base) {
  return Waiting(std::move(base), [](int64_t) {
    std::this_thread::yield();
    return absl::OkStatus();
  });
}

class ThreadTuningTest : public EngineFixture {
 protected:
  std::unique_ptr<Engine> Adapting(
      DatasetCatalog catalog, std::shared_ptr<ThreadPolicy> policy,
      uint64_t budget_bytes = 64 << 20,
      absl::Duration interval = absl::Milliseconds(1)) {
    Engine::Options options;
    options.threads = 2;
    options.read_threads = 3;
    options.adapt_threads = true;
    options.adapt_read_threads = true;
    options.admission_timeout = absl::ZeroDuration();
    return Create(options, std::move(catalog), budget_bytes,
                  {.interval = interval, .policy = std::move(policy)});
  }
};

TEST_F(ThreadTuningTest, TheSameBytesWhateverTheNumbersAre) {
  const DatasetCatalog catalog = {
      {"images", Images(211, {5, 60, 61, 150})},
      {"slow", Slow(Images(211, {5, 60, 61, 150}))}};
  const auto text = [](const std::string& dataset) {
    return "sources { dataset: '" + dataset +
           "' } batch_size: 12 seed: 3 last_batch: LAST_BATCH_PARTIAL "
           "bad_samples { action: SUBSTITUTE } " +
           kImageTransforms;
  };
  std::map<std::pair<uint64_t, uint64_t>, std::string> wanted;
  {
    Engine::Options options;
    options.threads = 1;
    options.read_threads = 0;
    auto engine = Create(options, catalog);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      StepRange range;
      range.epoch = epoch;
      for (const auto& [step, batch] : RunAll(*engine, text("images"), range)) {
        wanted[{epoch, step}] = PayloadText(batch);
      }
    }
  }
  auto policy = std::make_shared<RandomPolicy>();
  auto engine = Adapting(catalog, policy);
  const uint64_t promised = engine->batch_budget_bytes();
  for (int repeat = 0; repeat < 4; ++repeat) {
    for (const char* dataset : {"images", "slow"}) {
      for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        StepRange range;
        range.epoch = epoch;
        const auto batches = RunAll(*engine, text(dataset), range);
        EXPECT_EQ(batches.size(), 18u);
        for (const auto& [step, batch] : batches) {
          EXPECT_EQ(PayloadText(batch), (wanted[{epoch, step}]))
              << dataset << " epoch " << epoch << " step " << step;
        }
      }
    }
    policy->Await(policy->decisions + 20);
  }
  EXPECT_EQ(engine->batch_budget_bytes(), promised);
  EXPECT_EQ(budget_->used(), idle_use_);
  EXPECT_LE(budget_->peak(), budget_->capacity());
  const Engine::Stats stats = engine->stats();
  EXPECT_LE(stats.threads, stats.max_threads);
  EXPECT_LE(stats.read_threads, stats.max_read_threads);
  EXPECT_GT(stats.max_threads, 2u);
  EXPECT_EQ(stats.max_read_threads, Engine::kMaxAdaptiveReadThreads);
  ASSERT_EQ(stats.thread_changes.size(), 16u) << "the last ones";
  for (size_t i = 0; i < stats.thread_changes.size(); ++i) {
    const ThreadChange& change = stats.thread_changes[i];
    EXPECT_TRUE(change.kind() == "decode" || change.kind() == "read");
    EXPECT_NE(change.before(), change.after());
    EXPECT_EQ(change.reason(), "of chance");
    if (i > 0) {
      EXPECT_GE(change.seconds_ago(),
                stats.thread_changes[i - 1].seconds_ago());
    }
  }
  engine.reset();
  EXPECT_EQ(budget_->used(), 0u);
}

TEST_F(ThreadTuningTest, ManyRunsWhileTheNumbersChange) {
  auto policy = std::make_shared<RandomPolicy>();
  auto engine =
      Adapting({{"numbers", Slow(Numbers(1000))}, {"images", Images(400)}},
               policy, 256 << 10);
  RunMany(*engine,
          {"sources { dataset: 'numbers' } batch_size: 50",
           std::string("sources { dataset: 'images' } batch_size: 20 ") +
               kImageTransforms});
  policy->Await(5);
}

TEST_F(ThreadTuningTest, RunsEndWhileTheEngineIsDestroyedAndItsNumbersChange) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    Gate gate;
    auto policy = std::make_shared<RandomPolicy>();
    auto engine = Adapting({{"numbers", Gated(Numbers(1000), &gate)}}, policy);
    policy->Await(3);
    EndRunsWhileTheEngineIsDestroyed(std::move(engine), gate, 1);
  }
}

TEST_F(ThreadTuningTest, FixedNumbersStay) {
  auto policy = std::make_shared<RandomPolicy>();
  Engine::Options options;
  options.threads = 3;
  options.read_threads = 5;
  options.adapt_read_threads = true;
  auto engine = Create(options, {{"numbers", Numbers(100)}}, 64 << 20,
                       {.interval = absl::Milliseconds(1), .policy = policy});
  policy->Await(50);
  EXPECT_EQ(engine->stats().threads, 3u);
  EXPECT_EQ(engine->stats().max_threads, 3u);
  engine.reset();
  options.adapt_read_threads = false;
  const uint64_t asked = policy->decisions;
  engine = Create(options, {{"numbers", Numbers(100)}}, 64 << 20,
                  {.interval = absl::Milliseconds(1), .policy = policy});
  RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  const Engine::Stats stats = engine->stats();
  EXPECT_EQ(stats.read_threads, 5u);
  EXPECT_EQ(stats.max_read_threads, 5u);
  EXPECT_TRUE(stats.thread_changes.empty());
  EXPECT_EQ(policy->decisions, asked) << "nobody is asked";
}

// A server on many CPUs with little memory has fewer threads instead of none.
TEST_F(ThreadTuningTest, LittleMemoryMeansFewerThreads) {
  Engine::Options options;
  options.threads = 500;
  options.read_threads = 0;
  options.adapt_threads = true;
  auto engine = Create(options, {{"images", Images(10)}}, 256 << 10);
  const Engine::Stats stats = engine->stats();
  EXPECT_GE(stats.threads, 1u);
  EXPECT_LE(stats.threads, 128u) << "half of the budget, 1024 bytes each";
  EXPECT_GT(engine->batch_budget_bytes(), 64u << 10);
  EXPECT_EQ(RunAll(*engine,
                   std::string("sources { dataset: 'images' } batch_size: 5 ") +
                       kImageTransforms)
                .size(),
            2u);
}

}  // namespace
}  // namespace millrace::pipeline
