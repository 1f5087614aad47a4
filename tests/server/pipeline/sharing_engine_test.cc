// How the engine's threads and its memory for pipelines are shared: large
// images that wait hold no thread, pipelines are built in turn, and what they
// take is bounded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/error_detail.h"
#include "server/pipeline/built_pipeline/pipeline_bytes.h"
#include "server/pipeline/threads/fair_queue.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

// What happens to large images, in its order.
class LargeLog {
 public:
  void NoteTurnedAway() {
    MutexLock lock(mu_);
    ++turned_away_;
    changed_.NotifyAll();
  }
  void NoteDecoded(absl::Span<const uint8_t> stored) {
    MutexLock lock(mu_);
    decoded_.emplace_back(stored.begin(), stored.end());
  }
  void AwaitTurnedAway(int n) {
    MutexLock lock(mu_);
    while (turned_away_ < n) changed_.Wait(lock);
  }
  std::vector<std::string> decoded() {
    MutexLock lock(mu_);
    return decoded_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int turned_away_ MR_GUARDED_BY(mu_) = 0;
  std::vector<std::string> decoded_ MR_GUARDED_BY(mu_);
};

// As FakeStage, but each image takes all memory that is set aside for large
// ones.
class LargeStage final : public ImageStage {
 public:
  LargeStage(Gate* gate, LargeLog* log) : gate_(gate), log_(log) {}
  const std::vector<int64_t>& output_shape() const override {
    return base_.output_shape();
  }
  uint64_t max_scratch_bytes() const override { return 1024; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return base_.NewScratch();
  }
  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    decode::LargeImageGate::Admission admission;
    if (scratch.large == nullptr) {
      return absl::InternalError("a thread of the engine has a gate");
    }
    const int64_t bytes = scratch.large->gate->capacity();
    if (scratch.large->admission.bytes() < bytes &&
        !scratch.large->gate->TryEnter(bytes, &admission)) {
      scratch.large->wanted = bytes;
      if (log_ != nullptr) log_->NoteTurnedAway();
      return absl::UnavailableError("not now");
    }
    gate_->Pass();
    if (log_ != nullptr) log_->NoteDecoded(stored);
    return base_.Run(stored, key, scratch, out);
  }

 private:
  const FakeStage base_;
  Gate* const gate_;
  LargeLog* const log_;  // may be null
};

class SharingEngineTest : public EngineFixture {
 protected:
  std::unique_ptr<Engine> Make(uint32_t threads, DatasetCatalog catalog,
                               uint64_t budget_bytes = 64 << 20) {
    Engine::Options options;
    options.threads = threads;
    options.admission_timeout = absl::Seconds(60);
    return Create(options, std::move(catalog), budget_bytes);
  }

  std::unique_ptr<Engine> MakeLarge(uint32_t threads, DatasetCatalog catalog,
                                    Gate* gate, LargeLog* log = nullptr) {
    Engine::Options options;
    options.threads = threads;
    others_.Release();
    budget_ = std::make_unique<ByteBudget>(64 << 20);
    options.budget = budget_.get();
    auto engine = CreateEngine(
        options, std::move(catalog),
        [gate, log](const Field&, absl::Span<const PlacedTransform>,
                    const ImageStageOptions&)
            -> absl::StatusOr<std::unique_ptr<ImageStage>> {
          return std::make_unique<LargeStage>(gate, log);
        });
    EXPECT_TRUE(engine.ok()) << engine.status();
    // The budget has room for batches, and for no large image.
    constexpr uint64_t kForBatches = 4 << 20;
    EXPECT_TRUE(budget_->TryReserve(
        budget_->capacity() - budget_->used() - kForBatches, &others_));
    return *std::move(engine);
  }

  ByteBudget::Reservation others_;  // of budget_
};

constexpr char kLarge[] =
    "sources { dataset: 'images' } batch_size: 8 seed: 3 "
    "bad_samples { action: ZERO } ";

// One thread has the memory and stands still; the other finds none for the
// images that come next, and serves other jobs.
TEST_F(SharingEngineTest, ImagesThatWaitForMemoryHoldNoThread) {
  std::map<uint64_t, std::string> wanted;
  const std::string text = std::string(kLarge) + kImageTransforms;
  const DatasetCatalog catalog = {{"images", Images(40, {3, 17})},
                                  {"numbers", Numbers(1000)}};
  {
    Gate open;
    open.Open();
    auto engine = MakeLarge(1, catalog, &open);
    for (const auto& [step, batch] : RunAll(*engine, text)) {
      wanted[step] = PayloadText(batch);
    }
    ASSERT_EQ(wanted.size(), 5u);
  }
  Gate gate;
  auto engine = MakeLarge(2, catalog, &gate);
  const auto pipeline = Open(*engine, text);
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 5, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  gate.AwaitWaiting(1);
  // With the second thread in the gate's line this would never end.
  EXPECT_EQ(
      RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10").size(),
      100u);
  gate.Open();
  EXPECT_TRUE(arrivals.AwaitDone().ok());
  uint64_t valid = 0;
  for (const auto& [step, batch] : arrivals.TakeBatches()) {
    EXPECT_EQ(PayloadText(batch), wanted[step]) << "step " << step;
    valid += batch.header.local_valid();
  }
  EXPECT_EQ(valid, 38u);
  EXPECT_EQ(engine->stats().bad_samples, 2u);
}

// A client asks for its window in several calls. Its first batch was whole when
// the images of all of them had been decoded.
TEST_F(SharingEngineTest, LargeImagesOfTheEarliestStepAreDecodedFirst) {
  Gate gate;
  LargeLog log;
  auto engine = MakeLarge(
      2, {{"images", Images(40)}, {"numbers", Numbers(100)}}, &gate, &log);
  const auto pipeline = Open(*engine, std::string(kLarge) + kImageTransforms);
  // Steps 3 and 4 come to the gate first, then 1 and 2, then 0.
  Arrivals arrivals[3];
  std::vector<std::unique_ptr<Engine::Run>> runs;
  constexpr struct {
    uint64_t first;
    uint64_t count;
  } kCalls[] = {{3, 2}, {1, 2}, {0, 1}};
  int turned_away = -1;  // one has the memory
  for (int i = 0; i < 3; ++i) {
    StepRange range = {0, kCalls[i].first, kCalls[i].count, 0, 1, false};
    range.sharer =
        engine->SharerOf(*pipeline, {"0001", "ipv4:10.0.0.1"}, range);
    auto run = engine->Start(pipeline, range, arrivals[i].callbacks());
    ASSERT_TRUE(run.ok()) << run.status();
    runs.push_back(*std::move(run));
    turned_away += static_cast<int>(8 * kCalls[i].count);
    gate.AwaitWaiting(1);
    log.AwaitTurnedAway(turned_away);
  }
  // An image is turned away before it stands in the line. The thread that
  // turned the last one away has put it there when it works for another job.
  RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  gate.Open();
  std::map<std::string, uint64_t> step_of;
  for (Arrivals& each : arrivals) {
    EXPECT_TRUE(each.AwaitDone().ok());
    for (const auto& [step, batch] : each.TakeBatches()) {
      for (const int64_t index : TensorValues<int64_t>(batch, "sample_index")) {
        step_of["image " + std::to_string(index)] = step;
      }
    }
  }
  std::vector<uint64_t> steps;
  for (const std::string& image : log.decoded()) {
    ASSERT_TRUE(step_of.contains(image)) << image;
    steps.push_back(step_of[image]);
  }
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_EQ(steps[0], 3u);  // the one that had the memory
  EXPECT_TRUE(std::is_sorted(steps.begin() + 1, steps.end()))
      << ::testing::PrintToString(steps);
}

// Also while the engine is being destroyed.
TEST_F(SharingEngineTest, ACancelledRunGivesUpItsPlaceInTheLine) {
  Gate gate;
  auto engine =
      MakeLarge(2, {{"images", Images(40)}, {"numbers", Numbers(100)}}, &gate);
  const auto pipeline = Open(*engine, std::string(kLarge) + kImageTransforms);
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 5, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  gate.AwaitWaiting(1);
  RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  (*run)->Cancel();
  gate.Open();
  EXPECT_EQ(arrivals.AwaitDone().code(), absl::StatusCode::kCancelled);
  run->reset();
  engine.reset();
  EXPECT_EQ(budget_->used(), others_.bytes());
}

// They waited at a gate of the process, whose memory no budget has.
TEST_F(SharingEngineTest, ExplainedRowsShareTheMemoryForLargeImages) {
  Gate gate;
  gate.Open();
  auto engine = MakeLarge(1, {{"images", Images(40)}}, &gate);
  const auto pipeline = Open(*engine, std::string(kLarge) + kImageTransforms);
  ExplainBatchResponse response;
  const absl::Status explained =
      pipeline->ExplainRows({0, 0, 1, 0, 1, false}, 0, 8, &response);
  EXPECT_TRUE(explained.ok()) << explained;
  EXPECT_EQ(response.explained_size(), 8);
}

TEST_F(SharingEngineTest, SaysWhoWasGivenTime) {
  auto engine = Make(2, {{"numbers", Numbers(1000)}});
  const std::string text = "sources { dataset: 'numbers' } batch_size: 10";
  const auto pipeline = Open(*engine, text);
  StepRange range;
  range.sharer = engine->SharerOf(*pipeline, {"0001", "ipv4:10.0.0.1"}, range);
  RunAll(*engine, text, range);
  const Engine::Stats stats = engine->stats();
  ASSERT_EQ(stats.clients.size(), 1u);
  EXPECT_EQ(stats.clients[0].client(), "0001");
  EXPECT_EQ(stats.clients[0].peer(), "ipv4:10.0.0.1");
  EXPECT_EQ(stats.clients[0].dataset(), "numbers");
  EXPECT_GT(stats.clients[0].worker_seconds(), 0);
  EXPECT_DOUBLE_EQ(stats.clients[0].recent_share(), 1);
  EXPECT_EQ(stats.clients[0].active_streams(), 1u);
}

TEST_F(SharingEngineTest, PipelinesAreBuiltOnWorkersInTurn) {
  Gate gate;
  auto engine =
      Make(1, {{"busy", Gated(Numbers(10), &gate)}, {"numbers", Numbers(100)}});
  Arrivals arrivals;
  auto run =
      engine->Start(Open(*engine, "sources { dataset: 'busy' } batch_size: 10"),
                    {0, 0, 1, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  gate.AwaitWaiting(1);  // the only worker
  const PipelineSpec spec =
      Spec("sources { dataset: 'numbers' } batch_size: 10");
  std::atomic<int> opened{0};
  const uint64_t cached = engine->stats().cached_pipelines;
  engine->OpenAsync(spec, {"a", "h"}, nullptr, [&](const auto& pipeline) {
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    ++opened;
    opened.notify_all();
  });
  PipelineSpec other = spec;
  other.set_seed(5);
  engine->OpenAsync(
      other, {"b", "h"}, [] { return false; },
      [&](const auto& pipeline) {
        EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kCancelled);
        ++opened;
        opened.notify_all();
      });
  EXPECT_EQ(opened.load(), 0) << "built where it was asked for";
  gate.Open();
  for (int now = opened; now < 2; now = opened) opened.wait(now);
  EXPECT_EQ(engine->stats().cached_pipelines, cached + 1)
      << "one was no longer wanted";
  // Those that are there need no turn.
  bool found = false;
  engine->OpenAsync(spec, {"a", "h"}, nullptr,
                    [&](const auto& pipeline) { found = pipeline.ok(); });
  EXPECT_TRUE(found);
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

TEST_F(SharingEngineTest, TooManySpecsInLineAreRefusedWithADelay) {
  Gate gate;
  auto engine = Make(1, {{"busy", Gated(Numbers(10), &gate)}});
  Arrivals arrivals;
  auto run =
      engine->Start(Open(*engine, "sources { dataset: 'busy' } batch_size: 10"),
                    {0, 0, 1, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  gate.AwaitWaiting(1);
  PipelineSpec spec = Spec("sources { dataset: 'busy' } batch_size: 10");
  spec.add_outputs()->set_field(std::string(60'000, 'x'));
  std::atomic<int> answers{0};
  absl::Status refused;
  for (int i = 0; i < 400; ++i) {
    spec.set_seed(i);
    engine->OpenAsync(spec, {"a", "h"}, nullptr, [&](const auto& pipeline) {
      if (absl::IsResourceExhausted(pipeline.status())) {
        refused = pipeline.status();  // on this thread
      }
      ++answers;
      answers.notify_all();
    });
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(GetErrorDetail(refused).retry_delay_ms(), 0);
  // Another connection finds room.
  const int before = answers;
  spec.set_seed(400);
  engine->OpenAsync(spec, {"b", "h", "other"}, nullptr, [&](const auto&) {
    ++answers;
    answers.notify_all();
  });
  EXPECT_EQ(answers, before) << "refused on this thread";
  gate.Open();
  for (int now = answers; now < 401; now = answers) answers.wait(now);
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

// 64 Opens at a time, each with an id of its own, kept those of other programs
// of the address out.
TEST_F(SharingEngineTest, ConnectionsTakeTurnsToOpenWhateverTheirIds) {
  Gate gate;
  auto engine = Make(1, {{"busy", Gated(Numbers(10), &gate)}});
  Arrivals arrivals;
  auto run =
      engine->Start(Open(*engine, "sources { dataset: 'busy' } batch_size: 10"),
                    {0, 0, 1, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  gate.AwaitWaiting(1);  // the only worker
  PipelineSpec spec = Spec("sources { dataset: 'busy' } batch_size: 10");
  std::atomic<int> answers{0};
  int answers_before_good = -1;
  for (int i = 0; i <= 20; ++i) {
    const bool good = i == 20;
    spec.set_seed(i + 1);
    engine->OpenAsync(
        spec, {"id " + std::to_string(i), "h", good ? "good" : "many ids"},
        nullptr, [&, good](const auto& pipeline) {
          EXPECT_TRUE(pipeline.ok()) << pipeline.status();
          if (good) answers_before_good = answers;
          ++answers;
          answers.notify_all();
        });
  }
  gate.Open();
  for (int now = answers; now < 21; now = answers) answers.wait(now);
  EXPECT_GE(answers_before_good, 0);
  EXPECT_LE(answers_before_good, 2);
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

std::string ManyFlips(int seed) {
  std::string text = "sources { dataset: 'images' } batch_size: 8 seed: " +
                     std::to_string(seed) +
                     " transforms { decode_image { color: GRAY } } "
                     "transforms { random_resized_crop { height: 4 width: 4 } "
                     "} ";
  for (int i = 0; i < 60; ++i) text += "transforms { horizontal_flip {} } ";
  return text;
}

// Each seed is another pipeline.
TEST_F(SharingEngineTest, PipelinesTakeNoMoreThanTheirPartOfTheBudget) {
  auto engine = Make(1, {{"images", Images(40)}}, 256 << 20);
  constexpr uint64_t kPart = (256 << 20) / 64;
  for (int seed = 0; seed < 200; ++seed) {
    Open(*engine, ManyFlips(seed));
    EXPECT_LE(engine->stats().pipeline_bytes, kPart);
  }
  EXPECT_LT(engine->stats().cached_pipelines, 60u);
  EXPECT_GT(engine->stats().pipeline_bytes, kPart / 2);
  EXPECT_EQ(budget_->used(), idle_use_) << "the part was set aside before";

  // Those that are in use stay.
  std::vector<std::shared_ptr<const Pipeline>> used;
  absl::Status refused;
  for (int seed = 1000; seed < 1200; ++seed) {
    auto pipeline = engine->Open(Spec(ManyFlips(seed)));
    if (!pipeline.ok()) {
      refused = pipeline.status();
      break;
    }
    used.push_back(*std::move(pipeline));
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("retry"));
  EXPECT_GT(GetErrorDetail(refused).retry_delay_ms(), 0);
  used.pop_back();
  EXPECT_TRUE(engine->Open(Spec(ManyFlips(1300))).ok());
}

TEST_F(SharingEngineTest, APipelineThatCanNeverFitIsRefused) {
  auto engine = Make(1, {{"images", Images(40)}});
  PipelineSpec spec = Spec(ManyFlips(1));
  for (int i = 0; i < 100; ++i) {
    Source& source = *spec.add_sources();
    source.set_dataset("images");
    source.set_weight(1);
  }
  spec.mutable_sources(0)->set_weight(1);
  const auto refused = engine->Open(spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("the pipeline of 101 sources"));
  // A budget was advised for this one, which no budget makes right.
  while (spec.sources_size() < 600) *spec.add_sources() = spec.sources(0);
  const auto too_many = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("600 sources; the maximum is 256"));
  };
  too_many(engine->Open(spec).status());
  bool asked = false;
  engine->OpenAsync(spec, {"a", "h"}, nullptr, [&](const auto& pipeline) {
    too_many(pipeline.status());
    asked = true;
  });
  EXPECT_TRUE(asked) << "waits in line to be refused";
  EXPECT_THAT(refused.status().message(), HasSubstr("--memory_budget"));
}

// It waited for its turn among those that are built, and took a worker's time.
TEST_F(SharingEngineTest, APipelineThatCanNeverFitWaitsForNoTurn) {
  Gate gate;
  auto engine =
      Make(1, {{"busy", Gated(Numbers(10), &gate)}, {"images", Images(40)}});
  Arrivals arrivals;
  auto run =
      engine->Start(Open(*engine, "sources { dataset: 'busy' } batch_size: 10"),
                    {0, 0, 1, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  gate.AwaitWaiting(1);
  PipelineSpec spec = Spec(ManyFlips(1));
  while (spec.sources_size() < 256) *spec.add_sources() = spec.sources(0);
  absl::Status refused;
  std::atomic<bool> answered{false};
  engine->OpenAsync(spec, {"a", "h", "c"}, nullptr, [&](const auto& pipeline) {
    refused = pipeline.status();
    answered = true;
    answered.notify_all();
  });
  EXPECT_TRUE(answered) << "not on this thread";
  gate.Open();
  answered.wait(false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("the pipeline of 256 sources"));
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

// A budget of 65 MiB was named, which is enough for a lower bound of what the
// spec is resolved to: 88 MiB are needed.
TEST_F(SharingEngineTest, TheBudgetThatIsNamedForAPipelineIsTheSmallest) {
  const std::string flag = "--memory_budget=";
  for (const bool concatenate : {false, true}) {
    PipelineSpec spec = Spec(
        "batch_size: 8 transforms { decode_image { color: GRAY } } "
        "transforms { random_resized_crop { height: 4 width: 4 } }");
    for (int i = 0; i < 256; ++i) {
      Source& source = *spec.add_sources();
      source.set_dataset("images");
      source.mutable_subset()->set_from(0.5);
      source.mutable_subset()->set_seed(i);
    }
    spec.set_concatenate(concatenate);
    const auto open = [&](uint64_t mib) {
      const auto engine = Make(1, {{"images", Images(40)}}, mib << 20);
      absl::Status status = absl::UnknownError("not answered");
      std::atomic<bool> answered{false};
      engine->OpenAsync(spec, {"a", "h", "c"}, nullptr,
                        [&](const auto& pipeline) {
                          status = pipeline.status();
                          answered = true;
                          answered.notify_all();
                        });
      answered.wait(false);
      return status;
    };
    const std::string refused(open(16).message());
    const size_t at = refused.rfind(flag);
    ASSERT_NE(at, std::string::npos) << refused;
    const uint64_t named = std::stoull(refused.substr(at + flag.size()));
    EXPECT_GT(named, 65) << refused;
    EXPECT_TRUE(open(named).ok()) << refused << open(named);
    EXPECT_TRUE(absl::IsFailedPrecondition(open(named - 1))) << refused;
  }
}

// The mistake is named, and no budget: none mends it.
TEST_F(SharingEngineTest, AMistakeInALargeSpecIsNamedBeforeItsSize) {
  auto engine = Make(1, {{"images", Images(40)}});
  PipelineSpec spec = Spec(ManyFlips(1));
  spec.add_transforms()->mutable_decode_image()->set_field("mask");
  while (spec.sources_size() < 256) *spec.add_sources() = spec.sources(0);
  bool asked = false;
  engine->OpenAsync(spec, {"a", "h", "c"}, nullptr, [&](const auto& pipeline) {
    EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(pipeline.status().message(),
                HasSubstr("has no field \"mask\""));
    asked = true;
  });
  EXPECT_TRUE(asked);
}

}  // namespace
}  // namespace millrace::pipeline
