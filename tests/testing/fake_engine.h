// FakeEngine stands in for the pipeline in tests of the rpc room and of
// clients: it makes batches of a given payload size whose bytes follow from
// (epoch, step, rank), reserves their memory as the real one does, and can be
// told to fail.
//
// Thread-safe. Owns one thread, which runs all callbacks. Every run must be
// cancelled or done before it is destroyed.

#ifndef MILLRACE_TESTS_TESTING_FAKE_ENGINE_H_
#define MILLRACE_TESTS_TESTING_FAKE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/byte_budget.h"
#include "common/mutex.h"
#include "server/pipeline/engine.h"

namespace millrace::testing {

// Byte `i` of the payload of a batch.
inline uint8_t FakeByte(uint64_t epoch, uint64_t step, uint32_t rank,
                        uint64_t i) {
  return static_cast<uint8_t>(epoch * 31 + step * 7 + rank * 3 + i);
}

// The first byte of a payload that is not FakeByte(epoch, step, rank, i);
// `size` where all are. Tests that ask byte by byte take most of their time for
// it.
uint64_t FirstWrongByte(const void* payload, uint64_t size, uint64_t epoch,
                        uint64_t step, uint32_t rank);

class FakeEngine final : public pipeline::Engine {
 public:
  struct Config {
    ByteBudget* budget = nullptr;  // not owned
    // What batch_budget_bytes() says. 0: the budget's capacity.
    uint64_t batch_budget_bytes = 0;
    uint64_t payload_bytes = 1000;
    uint64_t steps_per_epoch = 1'000'000;
    std::string fingerprint = "fingerprint-a";
    std::string plan_hash = "plan-a";
    std::string decoder_digest = "decoders-a";
    pipeline::DatasetCatalog catalog;
    // Off: payloads keep what memory holds (for benchmarks).
    bool fill = true;
    // Payloads are this instead, again and again, with the step in the first
    // eight bytes: every byte is written anew, at the speed of memory (for
    // benchmarks). Not empty.
    std::shared_ptr<const std::string> copy_of;
    // Where ordinary payloads come from; null: the system.
    std::shared_ptr<batch::BufferPool> pool;
    // Ready batches share this payload instead of having one each, outside of
    // the budget (for benchmarks).
    std::shared_ptr<batch::BatchPayload> shared_payload;
    // A run that comes to this step ends with `fail_status`.
    uint64_t fail_at_step = UINT64_MAX;
    absl::Status fail_status;
    // Of Open.
    absl::Status open_status;
  };

  explicit FakeEngine(Config config);
  ~FakeEngine() override;

  pipeline::DatasetCatalog catalog() const override { return config_.catalog; }
  absl::StatusOr<std::shared_ptr<const pipeline::Pipeline>> Open(
      const PipelineSpec& spec) override;
  // On the engine's thread, as the real one does what is not cached.
  void OpenAsync(const PipelineSpec& spec, const pipeline::Caller& caller,
                 std::function<bool()> wanted, Opened opened) override;
  absl::StatusOr<std::unique_ptr<Run>> Start(
      std::shared_ptr<const pipeline::Pipeline> pipeline,
      const pipeline::StepRange& range, Callbacks callbacks) override;
  Stats stats() const override;
  std::string decoder_digest() const override { return config_.decoder_digest; }
  uint64_t batch_budget_bytes() const override {
    return config_.batch_budget_bytes != 0 ? config_.batch_budget_bytes
                                           : config_.budget->capacity();
  }
  uint64_t BudgetForBatches(uint64_t bytes) const override {
    return bytes + (config_.budget->capacity() - batch_budget_bytes());
  }

  uint64_t batches_made() const { return batches_made_; }
  uint64_t runs_done() const { return runs_done_; }

 private:
  class RunState;
  class FakeRun;

  // Runs `task` on the engine's thread.
  void Post(std::function<void()> task);
  void Step(std::shared_ptr<RunState> run);
  void Finish(const std::shared_ptr<RunState>& run, absl::Status status);

  const Config config_;
  const uint64_t shared_digest_;  // of Config::shared_payload
  std::atomic<uint64_t> batches_made_{0};
  std::atomic<uint64_t> runs_done_{0};
  Mutex mu_;
  CondVar changed_;
  bool closing_ MR_GUARDED_BY(mu_) = false;
  std::deque<std::function<void()>> tasks_ MR_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_FAKE_ENGINE_H_
