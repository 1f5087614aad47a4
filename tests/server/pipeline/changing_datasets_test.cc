// Datasets that are added to a running engine, replaced and removed: requests
// find the datasets of their moment, runs finish on what they began with, and
// the files are closed when nobody reads them.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"
#include "server/pipeline/added_source.h"
#include "server/pipeline/dataset_table.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/server/storage/odd_source.h"

namespace millrace::pipeline {
namespace {

using Source = std::shared_ptr<const storage::RecordSource>;

constexpr char kSpecOfA[] = "sources { dataset: 'a' } batch_size: 10";
constexpr char kSpecOfB[] = "sources { dataset: 'b' } batch_size: 10";

// Tells that a source is closed, and that all its readers were closed before.
class Closing {
 public:
  Source Watch(Source base) {
    return std::make_shared<WatchedSource>(this, std::move(base));
  }
  bool AwaitClosed() {
    MutexLock lock(mu_);
    const SteadyTime deadline = SteadyDeadline(absl::Seconds(30));
    while (!closed_) {
      if (!changed_.WaitUntil(lock, deadline)) return false;
    }
    return true;
  }
  bool closed() {
    MutexLock lock(mu_);
    return closed_;
  }
  int readers() { return readers_; }
  bool late_reader() { return late_reader_; }

 private:
  class WatchedReader final : public storage::RecordReader {
   public:
    WatchedReader(Closing* closing, std::unique_ptr<storage::RecordReader> base)
        : closing_(closing), base_(std::move(base)) {
      ++closing_->readers_;
    }
    ~WatchedReader() override {
      --closing_->readers_;
      if (closing_->closed()) closing_->late_reader_ = true;
    }
    absl::Status Read(
        int64_t index,
        absl::FunctionRef<absl::Status(const storage::EncodedSample&)> visit)
        override {
      return base_->Read(index, visit);
    }

   private:
    Closing* const closing_;
    const std::unique_ptr<storage::RecordReader> base_;
  };

  class WatchedSource final : public storage::RecordSource {
   public:
    WatchedSource(Closing* closing, Source base)
        : closing_(closing), base_(std::move(base)) {}
    ~WatchedSource() override {
      MutexLock lock(closing_->mu_);
      closing_->closed_ = true;
      closing_->changed_.NotifyAll();
    }
    const DatasetInfo& info() const override { return base_->info(); }
    absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
        const override {
      auto reader = base_->NewReader();
      if (!reader.ok()) return reader.status();
      return std::make_unique<WatchedReader>(closing_, *std::move(reader));
    }

   private:
    Closing* const closing_;
    const Source base_;
  };

  Mutex mu_;
  CondVar changed_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  std::atomic<int> readers_{0};
  std::atomic<bool> late_reader_{false};
};

class ChangingDatasetsTest : public EngineFixture {
 protected:
  std::unique_ptr<Engine> CreateChanging() {
    Engine::Options options;
    options.threads = 2;
    options.datasets_change = true;
    return Create(options, {});
  }
};

TEST_F(ChangingDatasetsTest, AnAddedDatasetGivesTheBatchesOfAFixedOne) {
  std::vector<std::string> expected;
  {
    const auto fixed = Create({.threads = 2}, {{"a", Numbers(100)}});
    for (const auto& [step, batch] : RunAll(*fixed, kSpecOfA)) {
      expected.push_back(PayloadText(batch));
    }
  }
  const auto engine = CreateChanging();
  EXPECT_EQ(engine->Open(Spec(kSpecOfA)).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(engine->AddDataset("a", Numbers(100)).ok());
  EXPECT_EQ(engine->catalog().size(), 1u);
  std::vector<std::string> found;
  for (const auto& [step, batch] : RunAll(*engine, kSpecOfA)) {
    found.push_back(PayloadText(batch));
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 10u);
}

TEST_F(ChangingDatasetsTest, AReplacedDatasetIsNotMixedUpWithTheOld) {
  const auto engine = CreateChanging();
  ASSERT_TRUE(engine->AddDataset("a", Numbers(100)).ok());
  const auto old = Open(*engine, kSpecOfA);
  EXPECT_EQ(Open(*engine, kSpecOfA), old);  // from the cache
  ASSERT_TRUE(engine->AddDataset("a", Numbers(50)).ok());
  const auto fresh = Open(*engine, kSpecOfA);
  EXPECT_NE(fresh, old);
  EXPECT_NE(fresh->description().fingerprint(),
            old->description().fingerprint());
  // A client sends the resolved spec with every call.
  const auto resolved = engine->Open(old->description().resolved_spec());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(*resolved, fresh);
  // What was opened before goes on with the old data.
  for (const auto& [pipeline, steps] :
       {std::pair(old, 10u), std::pair(fresh, 5u)}) {
    ASSERT_EQ(pipeline->description().steps_per_epoch(), steps);
    Arrivals arrivals;
    StepRange range;
    range.step_count = steps;
    const auto run = engine->Start(pipeline, range, arrivals.callbacks());
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(arrivals.AwaitDone().ok());
    EXPECT_EQ(arrivals.TakeBatches().size(), steps);
  }
}

TEST_F(ChangingDatasetsTest, ARemovedDatasetIsClosedAfterItsLastRun) {
  Closing closing;
  const auto engine = CreateChanging();
  ASSERT_TRUE(engine->AddDataset("a", closing.Watch(Numbers(100))).ok());
  RunAll(*engine, kSpecOfA);
  EXPECT_GT(closing.readers(), 0);  // worker threads keep them
  auto held = Open(*engine, kSpecOfA);
  engine->RemoveDataset("a");
  EXPECT_EQ(engine->Open(Spec(kSpecOfA)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(engine->catalog().empty());
  EXPECT_FALSE(closing.closed());
  Arrivals arrivals;
  StepRange range;
  range.step_count = 10;
  {
    const auto run = engine->Start(held, range, arrivals.callbacks());
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(arrivals.AwaitDone().ok());
  }
  held = nullptr;
  EXPECT_TRUE(closing.AwaitClosed());
  EXPECT_EQ(closing.readers(), 0);
  EXPECT_FALSE(closing.late_reader());
  // The worker threads' empty handles do not get in the way of others.
  ASSERT_TRUE(engine->AddDataset("b", Numbers(100)).ok());
  EXPECT_EQ(RunAll(*engine, kSpecOfB).size(), 10u);
}

// A source that calls a function when a pipeline of it is built.
class BuiltSource final : public storage::RecordSource {
 public:
  BuiltSource(Source base, std::function<void()> on_build)
      : base_(std::move(base)), on_build_(std::move(on_build)) {}
  const DatasetInfo& info() const override { return base_->info(); }
  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override {
    return base_->NewReader();
  }
  absl::Status CheckFields(const std::vector<bool>& used) const override {
    on_build_();
    return base_->CheckFields(used);
  }

 private:
  const Source base_;
  const std::function<void()> on_build_;
};

// The cache kept the pipeline, and the files open, until newer pipelines pushed
// it out.
TEST_F(ChangingDatasetsTest, ADatasetThatIsRemovedDuringABuildIsClosed) {
  for (const bool replaced : {false, true}) {
    Closing closing;
    const auto engine = CreateChanging();
    auto source = std::make_shared<BuiltSource>(
        closing.Watch(Numbers(100)), [&engine, replaced] {
          if (replaced) {
            EXPECT_TRUE(engine->AddDataset("a", Numbers(50)).ok());
          } else {
            engine->RemoveDataset("a");
          }
        });
    ASSERT_TRUE(engine->AddDataset("a", std::move(source)).ok());
    auto held = Open(*engine, kSpecOfA);
    EXPECT_EQ(held->description().steps_per_epoch(), 10u);
    EXPECT_EQ(engine->stats().cached_pipelines, 0u);
    EXPECT_FALSE(closing.closed());
    held = nullptr;
    EXPECT_TRUE(closing.closed());
  }
}

TEST_F(ChangingDatasetsTest, WhatWasThereAtTheStartStays) {
  const auto fixed = Create({.threads = 1}, {{"a", Numbers(10)}});
  EXPECT_EQ(fixed->AddDataset("b", Numbers(10)).code(),
            absl::StatusCode::kFailedPrecondition);
  fixed->RemoveDataset("a");
  EXPECT_EQ(fixed->catalog().size(), 1u);
  EXPECT_TRUE(fixed->Open(Spec(kSpecOfA)).ok());
}

TEST_F(ChangingDatasetsTest, MemoryIsSetAsideForImagesAndFooters) {
  Engine::Options options;
  options.threads = 2;
  ByteBudget budget(64 << 20);
  options.budget = &budget;
  const auto without = NeedsOf(options, {}, FakeStage::Create);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->scratch_each, 0u);
  options.datasets_change = true;
  options.added_metadata_bytes = 123;
  const auto with = NeedsOf(options, {}, FakeStage::Create);
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(with->scratch_each, 1024u);  // FakeStage's
  EXPECT_TRUE(with->reads_wait);
  EXPECT_EQ(with->file_metadata, 123u);
}

// For ThreadSanitizer.
TEST_F(ChangingDatasetsTest, ChangesWhileOthersOpenAndRun) {
  const auto engine = CreateChanging();
  ASSERT_TRUE(engine->AddDataset("a", Numbers(100)).ok());
  std::atomic<bool> end{false};
  std::thread changer([&] {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(engine->AddDataset("b", Numbers(i % 2 ? 100 : 60)).ok());
      if (i % 3 == 0) engine->RemoveDataset("b");
    }
    end = true;
  });
  std::vector<std::thread> users;
  for (const char* const text : {kSpecOfA, kSpecOfB, kSpecOfB}) {
    users.emplace_back([&, text] {
      while (!end) {
        const auto pipeline = engine->Open(Spec(text));
        if (!pipeline.ok()) {
          EXPECT_EQ(text, std::string(kSpecOfB)) << pipeline.status();
          EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kNotFound);
          continue;
        }
        const uint64_t steps = (*pipeline)->description().steps_per_epoch();
        EXPECT_TRUE(steps == 10 || (steps == 6 && text != kSpecOfA)) << steps;
        Arrivals arrivals;
        StepRange range;
        range.step_count = steps;
        const auto run = engine->Start(*pipeline, range, arrivals.callbacks());
        ASSERT_TRUE(run.ok()) << run.status();
        EXPECT_TRUE(arrivals.AwaitDone().ok());
        EXPECT_EQ(arrivals.TakeBatches().size(), steps);
        static_cast<void>(engine->catalog());
      }
    });
  }
  changer.join();
  for (std::thread& user : users) user.join();
}

TEST(AddedSourceTest, ItsReadersMayBeDestroyedLater) {
  Closing closing;
  auto added = std::make_shared<AddedSource>("n", closing.Watch(Numbers(10)));
  EXPECT_EQ(added->named_info().name(), "n");
  EXPECT_EQ(added->info().name(), "");
  auto first = added->NewReader();
  auto second = added->NewReader();
  ASSERT_TRUE(first.ok() && second.ok());
  int visits = 0;
  EXPECT_TRUE((*first)
                  ->Read(3,
                         [&](const storage::EncodedSample&) {
                           ++visits;
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(closing.readers(), 2);
  second->reset();
  EXPECT_EQ(closing.readers(), 1);
  added = nullptr;
  EXPECT_TRUE(closing.closed());
  EXPECT_EQ(closing.readers(), 0);
  EXPECT_FALSE(closing.late_reader());
  first->reset();
}

TEST(AddedSourceTest, GivesEveryAnswerOfItsBase) {
  const auto base = std::make_shared<const storage::OddSource>();
  const AddedSource added("n", base);
  storage::ExpectForwards(added, *base);
  EXPECT_EQ(added.named_info().name(), "n");
  EXPECT_EQ(added.named_info().fingerprint(), "f00d");
}

TEST(DatasetTableTest, KeysTellDatasetsOfOneNameApart) {
  DatasetTable table({{"fixed", Numbers(10)}});
  const PipelineSpec fixed = Spec("sources { dataset: 'fixed' } batch_size: 2");
  const PipelineSpec a = Spec(kSpecOfA);
  const PipelineSpec b = Spec(kSpecOfB);
  EXPECT_EQ(table.Now()->KeyOf(a), a.SerializeAsString());
  table.Set("a", Numbers(10));
  table.Set("b", Numbers(10));
  const auto before = table.Now();
  EXPECT_EQ(before->KeyOf(fixed), fixed.SerializeAsString());
  EXPECT_NE(before->KeyOf(a), a.SerializeAsString());
  table.Set("a", Numbers(10));
  EXPECT_NE(table.Now()->KeyOf(a), before->KeyOf(a));
  EXPECT_EQ(table.Now()->KeyOf(b), before->KeyOf(b));
  EXPECT_TRUE(table.Remove("b"));
  EXPECT_FALSE(table.Remove("b"));
  EXPECT_FALSE(table.Remove("fixed"));
  EXPECT_EQ(table.Now()->catalog().size(), 2u);
  EXPECT_EQ(before->catalog().size(), 3u);
}

}  // namespace
}  // namespace millrace::pipeline
