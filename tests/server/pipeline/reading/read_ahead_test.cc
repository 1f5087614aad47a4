// Reading apart from decoding: more reads at a time than there are workers, the
// same batches whoever reads, and nothing left behind when a run ends early.

#include "server/pipeline/reading/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/error_detail.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/reading/batch_reads.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

class ReadAheadTest : public EngineFixture {
 protected:
  std::unique_ptr<Engine> Make(uint32_t threads, uint32_t read_threads,
                               DatasetCatalog catalog,
                               uint64_t budget_bytes = 64 << 20) {
    Engine::Options options;
    options.threads = threads;
    options.read_threads = read_threads;
    options.admission_timeout = absl::ZeroDuration();
    return Create(options, std::move(catalog), budget_bytes);
  }
};

TEST_F(ReadAheadTest, FarMoreReadsThanWorkersAreUnderWay) {
  Gate gate;
  auto engine = Make(2, 64, {{"numbers", Waiting(Numbers(1000), [&](int64_t) {
                                gate.Pass();
                                return absl::OkStatus();
                              })}});
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 20");
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 50, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  gate.AwaitWaiting(64);  // with two workers
  gate.Open();
  EXPECT_TRUE(arrivals.AwaitDone().ok());
  EXPECT_EQ(arrivals.TakeBatches().size(), 50u);
}

TEST_F(ReadAheadTest, WithoutThreadsToReadTheWorkersDo) {
  Gate gate;
  auto engine = Make(2, 0, {{"numbers", Waiting(Numbers(100), [&](int64_t) {
                               EXPECT_FALSE(IsReader());
                               gate.Pass();
                               return absl::OkStatus();
                             })}});
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  gate.AwaitWaiting(2);
  gate.Open();
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

TEST_F(ReadAheadTest, ASourceIsNotReadByMoreThanItAllows) {
  std::atomic<int> inside{0}, most{0};
  auto engine =
      Make(2, 16,
           {{"numbers", Waiting(
                            Numbers(500),
                            [&](int64_t) {
                              const int now = inside.fetch_add(1) + 1;
                              int seen = most.load();
                              while (seen < now &&
                                     !most.compare_exchange_weak(seen, now)) {
                              }
                              std::this_thread::yield();
                              inside.fetch_sub(1);
                              return absl::OkStatus();
                            },
                            storage::ReadWait::kRead, /*max_concurrent=*/3)}});
  RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  // Three that read ahead and two workers, should they read as well.
  EXPECT_LE(most.load(), 5);
}

// A loader requested its window of 55 batches in two calls. The server worked
// on steps 0 and 27 in turns, and the loader waited for the first batch twice
// as long as one batch takes.
TEST_F(ReadAheadTest, SlowReadsAreThoseOfALoadersEarliestStep) {
  constexpr uint64_t kRows = 40;
  for (const uint32_t read_threads : {0u, 1u}) {
    Gate gate;
    Mutex mu;
    std::vector<uint64_t> steps;  // of the reads, in their order
    auto engine =
        Make(1, read_threads,
             {{"numbers", Waiting(Numbers(55 * kRows), [&](int64_t index) {
                 gate.Pass();
                 // So slow that a worker takes one row at a time.
                 std::this_thread::sleep_for(std::chrono::milliseconds(2));
                 MutexLock lock(mu);
                 steps.push_back(static_cast<uint64_t>(index) / kRows);
                 return absl::OkStatus();
               })}});
    const auto pipeline = Open(*engine,
                               "sources { dataset: 'numbers' } batch_size: 40 "
                               "shuffle { mode: SEQUENTIAL }");
    const auto start = [&](const StepRange& of_call, StepRange part,
                           Arrivals& arrivals) {
      part.sharer =
          engine->SharerOf(*pipeline, {"0001", "ipv4:10.0.0.1", "c"}, of_call);
      auto run = engine->Start(pipeline, part, arrivals.callbacks());
      EXPECT_TRUE(run.ok()) << run.status();
      return *std::move(run);
    };
    Arrivals later, earlier;
    const StepRange second = {.first_step = 27, .step_count = 28};
    const StepRange first = {.first_step = 0, .step_count = 27};
    const auto of_second = start(second, second, later);
    const auto of_first = start(first, first, earlier);
    gate.AwaitWaiting(1);
    gate.Open();
    EXPECT_EQ(earlier.AwaitBatch().header.step(), 0u);
    {
      MutexLock lock(mu);
      const auto reads = [&](uint64_t step) {
        return std::count(steps.begin(), steps.end(), step);
      };
      EXPECT_EQ(reads(0), kRows);
      // A quarter of the reads, so that the other call is not silent.
      EXPECT_NEAR(reads(27), kRows / 3, 4) << read_threads << " read threads";
    }
    of_first->Cancel();
    of_second->Cancel();
    EXPECT_TRUE(absl::IsCancelled(earlier.AwaitDone()));
    EXPECT_TRUE(absl::IsCancelled(later.AwaitDone()));
  }
}

// The one idea, again: a batch does not depend on who reads.
TEST_F(ReadAheadTest, EverySettingGivesTheSameBytes) {
  const auto numbers = Numbers(211);
  const auto more = Numbers(97);
  const auto images = Images(211, {5, 60, 61, 150});
  const auto pass = [](int64_t index) {
    if (index == 17) return absl::DataLossError("the page is damaged");
    return absl::OkStatus();
  };
  const std::string damaged_numbers =
      "sources { dataset: 'numbers' } batch_size: 12 seed: 3 "
      "last_batch: LAST_BATCH_PAD bad_samples { action: SUBSTITUTE }";
  const std::string substitute =
      std::string(
          "sources { dataset: 'images' } batch_size: 12 seed: 3 "
          "last_batch: LAST_BATCH_PARTIAL "
          "bad_samples { action: SUBSTITUTE } ") +
      kImageTransforms;
  const std::string zero =
      std::string(
          "sources { dataset: 'images' subset { to: 0.7 seed: 1 } } "
          "batch_size: 12 bad_samples { action: ZERO } ") +
      kImageTransforms;
  const std::string mixed =
      "sources { dataset: 'images' } batch_size: 12 seed: 3 "
      "last_batch: LAST_BATCH_PARTIAL bad_samples { action: ZERO } "
      "transforms { decode_image { color: GRAY } } "
      "transforms { random_resized_crop { height: 4 width: 4 } } "
      "transforms { mix_up { alpha: 1 } } ";
  // Of two sources that wait and one that does not.
  const std::string mixture =
      "sources { dataset: 'numbers' weight: 3 } "
      "sources { dataset: 'more' weight: 2 } "
      "sources { dataset: 'memory' weight: 1 } "
      "batch_size: 12 seed: 3 last_batch: LAST_BATCH_PAD "
      "bad_samples { action: SUBSTITUTE }";
  for (const std::string& text :
       {damaged_numbers, substitute, zero, mixed, mixture}) {
    // rank of the world -> step -> payload
    std::map<std::pair<uint32_t, uint64_t>, std::string> wanted;
    for (uint32_t read_threads : {0, 1, 7, 40}) {
      for (uint32_t threads : {1, 3}) {
        // Little memory: few samples may be ahead at a time.
        auto engine = Make(threads, read_threads,
                           {{"numbers", Waiting(numbers, pass)},
                            {"more", Waiting(more, pass)},
                            {"memory", more},
                            {"images", Waiting(images, pass)}},
                           256 << 10);
        for (uint32_t rank = 0; rank < 4; ++rank) {
          StepRange range;
          range.epoch = 2;
          range.rank = rank;
          range.world_size = 4;  // slices of 3: pairs lie across ranks
          for (const auto& [step, batch] : RunAll(*engine, text, range)) {
            const auto [it, first] =
                wanted.emplace(std::pair(rank, step), PayloadText(batch));
            EXPECT_EQ(it->second, PayloadText(batch))
                << text << " step " << step << " read threads " << read_threads;
          }
        }
        EXPECT_EQ(budget_->used(), idle_use_);
      }
    }
  }
}

TEST_F(ReadAheadTest, ErrorsAreThoseOfReadingWhereItIsUsed) {
  const auto fail = [](int64_t index) {
    return index == 33 ? absl::DataLossError("the page is damaged")
                       : absl::OkStatus();
  };
  std::map<uint32_t, std::string> said;
  for (uint32_t read_threads : {0, 8}) {
    auto engine =
        Make(1, read_threads, {{"numbers", Waiting(Numbers(100), fail)}});
    const auto pipeline = Open(*engine,
                               "sources { dataset: 'numbers' } batch_size: 10 "
                               "shuffle { mode: SEQUENTIAL }");
    Arrivals arrivals;
    auto run =
        engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
    ASSERT_TRUE(run.ok());
    const absl::Status status = arrivals.AwaitDone();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(GetErrorDetail(status).sample(), 33);
    said[read_threads] = FormatError(status);
  }
  EXPECT_THAT(said[0], HasSubstr("the page is damaged"));
  EXPECT_EQ(said[0], said[8]);
}

// A client that is told no time takes the error as final.
TEST_F(ReadAheadTest, WithoutMemoryForASampleItIsSaidWhenToAskAgain) {
  for (uint32_t read_threads : {0, 2}) {
    auto engine =
        Make(1, read_threads,
             {{"numbers", Waiting(Numbers(10), [](int64_t) {
                 return absl::ResourceExhaustedError("no memory for a page");
               })}});
    const auto pipeline =
        Open(*engine, "sources { dataset: 'numbers' } batch_size: 10");
    Arrivals arrivals;
    auto run =
        engine->Start(pipeline, {0, 0, 1, 0, 1, false}, arrivals.callbacks());
    ASSERT_TRUE(run.ok());
    const absl::Status status = arrivals.AwaitDone();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("for a page"));
    EXPECT_EQ(GetErrorDetail(status).dataset(), "numbers");
    EXPECT_GT(GetErrorDetail(status).retry_delay_ms(), 0);
  }
}

TEST_F(ReadAheadTest, CancellingDropsWhatNobodyHasBegunToRead) {
  Gate gate;
  std::atomic<int> reads{0};
  auto engine = Make(2, 4, {{"numbers", Waiting(Numbers(1000), [&](int64_t) {
                               reads.fetch_add(1);
                               gate.Pass();
                               return absl::OkStatus();
                             })}});
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 100");
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  gate.AwaitWaiting(4);
  EXPECT_GT(budget_->used(), idle_use_);
  (*run)->Cancel();
  gate.Open();
  EXPECT_EQ(arrivals.AwaitDone().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(reads.load(), 4);
  EXPECT_TRUE(arrivals.TakeBatches().empty());
  EXPECT_EQ(budget_->used(), idle_use_);
}

TEST_F(ReadAheadTest, RunsThatReadEndWhileTheEngineIsDestroyed) {
  Gate gate;
  EndRunsWhileTheEngineIsDestroyed(
      Make(2, 8,
           {{"numbers", Waiting(Numbers(1000),
                                [&](int64_t) {
                                  gate.Pass();
                                  return absl::OkStatus();
                                })}}),
      gate, 8);
}

// Storage that turns out to make nobody wait costs no hand-over any more.
TEST_F(ReadAheadTest, WhatIsThereAlreadyIsReadByTheWorkers) {
  std::atomic<uint64_t> by_workers{0};
  auto engine = Make(2, 4, {{"numbers", Waiting(Numbers(2000), [&](int64_t) {
                               by_workers.fetch_add(!IsReader());
                               return absl::OkStatus();
                             })}});
  // Whoever reads may be made to wait by others on this machine; not for long.
  for (int epochs = 0; by_workers.load() < 1000; ++epochs) {
    ASSERT_LT(epochs, 1000);
    RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 100");
  }
}

TEST_F(ReadAheadTest, PagesThatAreWaitedForAreTouchedAhead) {
  const auto source = Waiting(
      Numbers(100), [](int64_t) { return absl::OkStatus(); },
      storage::ReadWait::kPages);
  auto engine = Make(2, 4, {{"numbers", source}});
  const std::string text = "sources { dataset: 'numbers' } batch_size: 10";
  const auto before = RunAll(*engine, text);
  EXPECT_EQ(source->prefetches.load(), 0u);
  // As if a worker had met pages that were not there.
  const auto pipeline =
      std::dynamic_pointer_cast<const BuiltPipeline>(Open(*engine, text));
  pipeline->pace().NoteWait(1, 1'000'000'000);
  const auto after = RunAll(*engine, text);
  EXPECT_EQ(source->prefetches.load(), 100u);
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [step, batch] : after) {
    EXPECT_EQ(PayloadText(batch), PayloadText(before.at(step)));
  }
}

// Over sources that wait and sources that do not, in little memory.
TEST_F(ReadAheadTest, ManyRunsShareTheThreads) {
  const auto pass = [](int64_t) {
    std::this_thread::yield();
    return absl::OkStatus();
  };
  auto engine = Make(3, 6,
                     {{"numbers", Waiting(Numbers(1000), pass)},
                      {"images", Waiting(Images(400), pass)},
                      {"memory", Numbers(1000)}},
                     256 << 10);
  RunMany(*engine,
          {"sources { dataset: 'numbers' } batch_size: 50",
           std::string("sources { dataset: 'images' } batch_size: 20 ") +
               kImageTransforms,
           "sources { dataset: 'memory' } batch_size: 50"});
}

// One sample fills the room for those that were read ahead.
std::shared_ptr<const storage::RecordSource> Large(int64_t samples,
                                                   int64_t bytes = 20 << 10) {
  DatasetInfo info;
  Field& x = *info.mutable_schema()->add_fields();
  x.set_name("x");
  x.set_kind(FIELD_KIND_TENSOR);
  x.set_dtype(DTYPE_UINT8);
  x.add_shape(bytes);
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    all.push_back({std::string(bytes, static_cast<char>('a' + i % 26))});
  }
  return storage::NewMemorySource(info, std::move(all));
}

TEST_F(ReadAheadTest, SamplesOfAWholeTaskAreReady) {
  auto engine = Make(
      1, 1,
      {{"large", Waiting(Large(8), [](int64_t) { return absl::OkStatus(); })}});
  const auto pipeline = std::dynamic_pointer_cast<const BuiltPipeline>(
      Open(*engine, "sources { dataset: 'large' } batch_size: 4"));
  const auto rows = pipeline->plan().steps().Rows(0, 0, 1);
  ASSERT_TRUE(rows.ok());
  const batch::BatchLayout::Placed placed =
      pipeline->layout().ForRows(rows->rows);
  std::vector<uint8_t> payload(placed.payload_bytes());
  const BatchSlice slice =
      SliceOf(*pipeline, 0, 0, *rows, placed, payload.data());
  const plan::Plan::Epoch epoch = pipeline->plan().ForEpoch(0);
  SampleBuffers buffers(1 << 20);
  ReadGates gates;
  WorkerState reader;
  BatchReads reads(*pipeline, epoch, slice, /*units_per_task=*/2, buffers);
  std::vector<uint64_t> ready;
  for (uint64_t i : {3, 0, 1}) {
    reads.Read(i, i + 1, reader, gates);
    reads.Done(i, i + 1, [&](uint64_t from, uint64_t to) {
      // Before anybody can give them back.
      EXPECT_GT(buffers.ready_bytes(), 40u << 10);
      EXPECT_LT(buffers.ready_bytes(), buffers.held_bytes());
      ready.insert(ready.end(), {from, to});
    });
  }
  EXPECT_EQ(ready, (std::vector<uint64_t>{0, 2}));
  reads.Release(0, 2);
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  EXPECT_GT(buffers.held_bytes(), 20u << 10);
}

// The reads of a pipeline's first batch, without an engine's threads.
class FirstBatch {
 public:
  FirstBatch(const std::shared_ptr<const Pipeline>& pipeline,
             uint64_t units_per_task, SampleBuffers& buffers)
      : pipeline_(std::dynamic_pointer_cast<const BuiltPipeline>(pipeline)),
        rows_(*pipeline_->plan().steps().Rows(0, 0, 1)),
        placed_(pipeline_->layout().ForRows(rows_.rows)),
        payload_(placed_.payload_bytes()),
        slice_(SliceOf(*pipeline_, 0, 0, rows_, placed_, payload_.data())),
        epoch_(pipeline_->plan().ForEpoch(0)),
        reads(*pipeline_, epoch_, slice_, units_per_task, buffers) {}

 private:
  const std::shared_ptr<const BuiltPipeline> pipeline_;
  const plan::StepRows rows_;
  const batch::BatchLayout::Placed placed_;
  std::vector<uint8_t> payload_;
  const BatchSlice slice_;
  const plan::Plan::Epoch epoch_;

 public:
  BatchReads reads;
};

// Of 4 MB images and rows of 1 kB: where one image filled the room and its task
// was not whole, every small row was left to the workers.
TEST_F(ReadAheadTest, SmallSamplesAreReadAheadBesideALargeOneOfAnotherPlan) {
  const auto pass = [](int64_t) { return absl::OkStatus(); };
  auto engine = Make(1, 1,
                     {{"large", Waiting(Large(8, 100 << 10), pass)},
                      {"small", Waiting(Numbers(100), pass)}});
  SampleBuffers buffers(128 << 10);
  ReadGates gates;
  WorkerState reader;
  FirstBatch large(Open(*engine, "sources { dataset: 'large' } batch_size: 4"),
                   /*units_per_task=*/4, buffers);
  FirstBatch small(Open(*engine, "sources { dataset: 'small' } batch_size: 20"),
                   /*units_per_task=*/20, buffers);
  large.reads.Read(0, 1, reader, gates);
  EXPECT_GT(buffers.held_bytes(), 100u << 10);
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  small.reads.Read(0, 20, reader, gates);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_NE(small.reads.At(i), nullptr) << i;
  }
}

// A large sample was held, the others of its task were being read, and rows of
// another plan waited for these reads.
TEST_F(ReadAheadTest, SlowReadsOfLargeSamplesHoldUpNoOtherPlan) {
  Gate storage;
  std::atomic<int> large_reads{0};
  const auto slow = [&](int64_t) {
    if (large_reads.fetch_add(1) < 3) storage.Pass();  // the last one is held
    return absl::OkStatus();
  };
  std::atomic<int> by_workers{0};
  const auto fast = [&](int64_t) {
    by_workers.fetch_add(!IsReader());
    // Storage that makes threads wait: the workers must not be given its reads.
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return absl::OkStatus();
  };
  // 2 MiB of budget / 16 / 2 = 64 KiB have no room for a sample of 80 KiB.
  auto engine = Make(2, 4,
                     {{"large", Waiting(Large(4, 80 << 10), slow)},
                      {"small", Waiting(Numbers(1000), fast)}},
                     2 << 20);
  const auto large = std::dynamic_pointer_cast<const BuiltPipeline>(
      Open(*engine, "sources { dataset: 'large' } batch_size: 4"));
  ASSERT_GE(large->rows_per_task(), 4u);
  Arrivals arrivals, others;
  auto run = engine->Start(large, {0, 0, 1, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  storage.AwaitWaiting(3);
  auto other = engine->Start(
      Open(*engine, "sources { dataset: 'small' } batch_size: 20"),
      {0, 0, 50, 0, 1, false}, others.callbacks());
  ASSERT_TRUE(other.ok()) << other.status();
  for (int i = 0; i < 2000 && !others.done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(others.done());
  EXPECT_EQ(by_workers.load(), 0);
  storage.Open();
  EXPECT_TRUE(others.AwaitDone().ok());
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

// Who reads waits for room that other samples of the same batch have, which
// nobody has begun to work on when the run ends.
TEST_F(ReadAheadTest, ARunThatEndsGivesRoomToItsReaders) {
  Gate busy, next_task;
  // 8 MiB of budget / 16 / 2 = 256 KiB have room for 12 samples of 20 KiB.
  constexpr uint64_t kRoomSamples = 12;
  std::atomic<uint64_t> reads{0};
  const auto hook = [&](int64_t) {
    if (reads.fetch_add(1) == kRoomSamples) next_task.Pass();
    return absl::OkStatus();
  };
  auto engine = Make(1, 1,
                     {{"busy", Gated(Numbers(10), &busy)},
                      {"large", Waiting(Large(60), hook)}},
                     8 << 20);
  const auto pipeline = std::dynamic_pointer_cast<const BuiltPipeline>(
      Open(*engine, "sources { dataset: 'large' } batch_size: 60"));
  ASSERT_LT(pipeline->rows_per_task(), 60u);
  Arrivals other, arrivals;
  auto worker =
      engine->Start(Open(*engine, "sources { dataset: 'busy' } batch_size: 10"),
                    {0, 0, 1, 0, 1, false}, other.callbacks());
  ASSERT_TRUE(worker.ok()) << worker.status();
  busy.AwaitWaiting(1);  // the only worker
  auto run =
      engine->Start(pipeline, {0, 0, 1, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  next_task.AwaitWaiting(1);  // tasks are whole, and fill all room
  next_task.Open();
  (*run)->Cancel();
  busy.Open();
  EXPECT_EQ(arrivals.AwaitDone().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(other.AwaitDone().ok());
}

// As FakeStage, but the first image that it is given finds no memory. The
// thread that gave that image up then waits, with the other work of its task
// still to do, until the image is given again: by another thread.
class OnceFullStage final : public ImageStage {
 public:
  struct Runs {
    Mutex mu;
    CondVar changed;
    int count MR_GUARDED_BY(mu) = 0;
  };

  explicit OnceFullStage(Runs* runs) : runs_(runs) {}
  const std::vector<int64_t>& output_shape() const override {
    return base_.output_shape();
  }
  uint64_t max_scratch_bytes() const override { return 1024; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<WaitingScratch>(runs_);
  }
  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    {
      MutexLock lock(runs_->mu);
      runs_->changed.NotifyAll();
      if (++runs_->count == 1) {
        scratch.large->wanted = 1;
        return absl::UnavailableError("not now");
      }
    }
    return base_.Run(stored, key, scratch, out);
  }

 private:
  // A task asks for its times behind its last unit.
  class WaitingScratch final : public Scratch {
   public:
    explicit WaitingScratch(Runs* runs) : runs_(runs) {}
    Times TakeTimes() override {
      MutexLock lock(runs_->mu);
      while (runs_->count < 2) runs_->changed.Wait(lock);
      return {};
    }

   private:
    Runs* const runs_;
  };

  const FakeStage base_;
  Runs* const runs_;
};

// The second thread must not work on a sample that the first one gives back:
// its memory is used again for other samples.
TEST_F(ReadAheadTest, AnImageThatIsGivenUpIsReadAgain) {
  OnceFullStage::Runs runs;
  std::atomic<uint64_t> worker_reads{0};
  Engine::Options options;
  options.threads = 2;
  options.read_threads = 1;
  budget_ = std::make_unique<ByteBudget>(64 << 20);
  options.budget = budget_.get();
  auto engine =
      CreateEngine(options,
                   {{"images", Waiting(Images(1),
                                       [&](int64_t) {
                                         if (!IsReader()) ++worker_reads;
                                         return absl::OkStatus();
                                       })}},
                   [&](const Field&, absl::Span<const PlacedTransform>,
                       const ImageStageOptions&)
                       -> absl::StatusOr<std::unique_ptr<ImageStage>> {
                     return std::make_unique<OnceFullStage>(&runs);
                   });
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto batches =
      RunAll(**engine, std::string("sources { dataset: 'images' } "
                                   "batch_size: 1 ") +
                           kImageTransforms);
  EXPECT_EQ(batches.size(), 1u);
  EXPECT_EQ(worker_reads.load(), 1u);
}

// Else a run that ends with its engine would wait for reads that never come.
TEST(ReadAhead, TakesNothingAfterItsEnd) {
  class NoJob final : public Scheduler::Job {};
  const auto lane = std::make_shared<Scheduler::Lane>();
  std::atomic<uint64_t> reads{0};
  ReadAhead ahead(
      {.threads = 1,
       .max_threads = 1,
       .buffer_bytes = 1 << 20,
       .read = [&](const Scheduler::Task&, WorkerState&) { ++reads; }});
  EXPECT_TRUE(ahead.Add(lane, std::make_shared<NoJob>(), 3, 1, 0));
  ahead.Stop();
  EXPECT_EQ(reads.load(), 3u);
  EXPECT_FALSE(ahead.Add(lane, std::make_shared<NoJob>(), 3, 1, 1));
  EXPECT_TRUE(ahead.Remove(lane).empty());
}

}  // namespace
}  // namespace millrace::pipeline
