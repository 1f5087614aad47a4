// A HostLoader that makes its batches up: `image` uint8 [rows, 2, 3, 2] with a
// device transform, `label` int64, `text` ragged uint8, `sample_index` and
// `valid`. Every byte follows from the place in the epoch, so tests can tell
// what a batch must hold long after its slot could have been used again.
//
// Slots are poisoned when they come back: who reads one too late sees it.

#ifndef MILLRACE_TESTS_CLIENT_TORCH_FAKE_HOST_LOADER_H_
#define MILLRACE_TESTS_CLIENT_TORCH_FAKE_HOST_LOADER_H_

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/prefetch/host_loader.h"
#include "common/mutex.h"
#include "xxhash.h"

namespace millrace::device {

inline uint8_t FakePixel(uint64_t position, uint64_t i) {
  return static_cast<uint8_t>(position * 31 + i * 7 + 3);
}

class FakeHostLoader final : public HostLoader {
 public:
  static constexpr int kPixels = 12;  // 2 x 3 x 2
  static constexpr int kTensors = 6;  // regions; `text` has two

  struct Options {
    uint64_t rows = 4;   // at most 24: `text` has its place
    uint64_t steps = 8;  // of an epoch
    uint64_t epochs = 1;
    uint32_t window = 4;
    bool transform = true;
    absl::Duration next_timeout = absl::Minutes(5);
    // Changes the plan before anybody sees it; types and shapes on the wire
    // stay.
    std::function<void(OpenResponse&)> edit_plan;
    // Types that the batches claim for `label`.
    DType wire_labels = DTYPE_INT64;
    // Called at the start of Next(); an error is given out.
    std::function<absl::Status(Position)> before_next;
    // Next() waits where it is true, until a Seek() or Close(): a batch that
    // does not come. Called often, under a lock.
    std::function<bool(Position)> stalled;
    // When given: counts the slots that are in use.
    std::shared_ptr<std::atomic<int>> slots_in_use;
  };

  explicit FakeHostLoader(Options options)
      : options_(std::move(options)), pool_(std::make_shared<Pool>()) {
    plan_.set_steps_per_epoch(options_.steps);
    plan_.mutable_resolved_spec()->set_batch_size(options_.rows);
    auto add = [this](const char* name, DType dtype,
                      std::vector<int64_t> shape) {
      TensorSpec* spec = plan_.add_tensors();
      spec->set_name(name);
      spec->set_dtype(dtype);
      for (int64_t dim : shape) spec->add_sample_shape(dim);
      return spec;
    };
    TensorSpec* image = add("image", DTYPE_UINT8, {2, 3, 2});
    if (options_.transform) {
      DeviceTransform* transform = image->mutable_device_transform();
      transform->set_dtype(DTYPE_FLOAT32);
      transform->set_scale(1.0f / 255);
      transform->add_mean(0.25f);
      transform->add_mean(0.5f);
      transform->add_stddev(0.5f);
      transform->add_stddev(0.3f);
    }
    add("label", DTYPE_INT64, {})->set_num_classes(10);
    add("text", DTYPE_UINT8, {-1});
    add("sample_index", DTYPE_INT64, {});
    add("valid", DTYPE_BOOL, {});
    plan_.set_max_payload_bytes(kTensors * Stride());
    if (options_.edit_plan) options_.edit_plan(plan_);
    for (uint32_t i = 0; i < options_.window; ++i) {
      pool_->free.push_back(
          std::make_unique<std::vector<uint8_t>>(plan_.max_payload_bytes()));
    }
  }

  // Between the tensors of a payload, in the order of the plan.
  static constexpr uint64_t Stride(uint64_t rows) {
    return (rows * kPixels + 64 + 63) / 64 * 64;
  }

  const OpenResponse& plan() const override { return plan_; }
  uint32_t window() const override { return options_.window; }

  absl::StatusOr<HostBatch> Next() override {
    if (options_.before_next) {
      absl::Status status = options_.before_next(position());
      if (!status.ok()) return status;
    }
    if (position().epoch == options_.epochs) {
      return absl::OutOfRangeError("all epochs were delivered");
    }
    std::unique_ptr<std::vector<uint8_t>> slot;
    {
      MutexLock lock(pool_->mu);
      const SteadyTime deadline = SteadyDeadline(options_.next_timeout);
      while (pool_->free.empty() && !pool_->closed) {
        if (!pool_->changed.WaitUntil(lock, deadline) && pool_->free.empty()) {
          return absl::DeadlineExceededError("all slots are held");
        }
      }
      if (pool_->closed) return absl::CancelledError("closed");
      slot = std::move(pool_->free.front());
      pool_->free.pop_front();
    }
    HostBatch batch;
    {
      MutexLock lock(pool_->mu);
      while (options_.stalled && options_.stalled(position_) &&
             !pool_->closed) {
        pool_->changed.Wait(lock);
      }
      // Another place after a Seek() meanwhile.
      if (pool_->closed || position_.epoch == options_.epochs) {
        pool_->free.push_back(std::move(slot));
        if (pool_->closed) return absl::CancelledError("closed");
        return absl::OutOfRangeError("all epochs were delivered");
      }
      batch.position = position_;
      batch.generation = generation_;
      if (++position_.step == options_.steps) {
        position_ = {position_.epoch + 1, 0};
      }
    }
    Fill(batch.position, slot->data(), &batch.header);
    static_cast<BatchInfo&>(batch) =
        MakeBatchInfo(batch.header, batch.position, batch.generation);
    // As a server does when it is asked to.
    batch.header.set_payload_xxh3(XXH3_64bits(slot->data(), slot->size()));
    batch.payload = absl::MakeSpan(*slot);
    if (options_.slots_in_use != nullptr) ++*options_.slots_in_use;
    batch.lease = std::shared_ptr<void>(
        slot.release(),
        [pool = pool_, in_use = options_.slots_in_use](void* released) {
          std::unique_ptr<std::vector<uint8_t>> back(
              static_cast<std::vector<uint8_t>*>(released));
          std::fill(back->begin(), back->end(), 0xee);
          if (in_use != nullptr) --*in_use;
          MutexLock lock(pool->mu);
          pool->free.push_back(std::move(back));
          pool->changed.NotifyAll();
        });
    return batch;
  }

  // Waits as Next() does: nothing that uses this loader is impatient.
  absl::StatusOr<std::optional<HostBatch>> NextWithin(absl::Duration) override {
    absl::StatusOr<HostBatch> batch = Next();
    if (!batch.ok()) return batch.status();
    return *std::move(batch);
  }

  Position position() const override {
    MutexLock lock(pool_->mu);
    return position_;
  }
  absl::Status Seek(Position position) override {
    if (position.step > options_.steps) {
      return absl::InvalidArgumentError("past the end of the epoch");
    }
    if (position.step == options_.steps) position = {position.epoch + 1, 0};
    if (position.epoch > options_.epochs ||
        (position.epoch == options_.epochs && position.step > 0)) {
      return absl::InvalidArgumentError("past the last epoch");
    }
    MutexLock lock(pool_->mu);
    if (pool_->closed) return absl::CancelledError("closed");
    position_ = position;
    ++generation_;
    pool_->changed.NotifyAll();
    return absl::OkStatus();
  }
  Stats stats() const override { return {}; }
  void Close() override {
    MutexLock lock(pool_->mu);
    pool_->closed = true;
    pool_->changed.NotifyAll();
  }

 private:
  struct Pool {
    Mutex mu;
    CondVar changed;
    bool closed MR_GUARDED_BY(mu) = false;
    std::deque<std::unique_ptr<std::vector<uint8_t>>> free MR_GUARDED_BY(mu);
  };

  uint64_t Stride() const { return Stride(options_.rows); }

  void Fill(Position position, uint8_t* data, BatchHeader* header) const {
    const uint64_t rows = options_.rows;
    const uint64_t first = position.step * rows;
    header->set_epoch(position.epoch);
    header->set_step(position.step);
    header->set_rows(rows);
    header->set_first_position(first);
    header->set_local_valid(rows);
    header->set_global_valid(rows);
    header->set_payload_bytes(plan_.max_payload_bytes());
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const TensorSpec& spec = plan_.tensors(i);
      TensorHeader* tensor = header->add_tensors();
      tensor->set_name(spec.name());
      tensor->set_dtype(i == 1 ? options_.wire_labels : spec.dtype());
      *tensor->mutable_sample_shape() = spec.sample_shape();
      tensor->set_offset(i * Stride());
    }
    uint8_t* image = data;
    auto* label = reinterpret_cast<int64_t*>(data + Stride());
    auto* text = reinterpret_cast<int64_t*>(data + 2 * Stride());
    uint8_t* letters = data + 5 * Stride();
    auto* index = reinterpret_cast<int64_t*>(data + 3 * Stride());
    uint8_t* valid = data + 4 * Stride();
    text[0] = 0;
    for (uint64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < kPixels; ++i) {
        image[r * kPixels + i] = FakePixel(first + r, i);
      }
      label[r] = static_cast<int64_t>((first + r) % 10);
      // Row r has r letters.
      text[r + 1] = text[r] + static_cast<int64_t>(r);
      std::memset(letters + text[r], static_cast<int>('a' + r), r);
      index[r] = static_cast<int64_t>(first + r);
      valid[r] = 1;
    }
    header->mutable_tensors(0)->set_bytes(rows * kPixels);
    header->mutable_tensors(1)->set_bytes(rows * 8);
    header->mutable_tensors(2)->set_bytes((rows + 1) * 8);
    header->mutable_tensors(2)->set_values_offset(5 * Stride());
    header->mutable_tensors(2)->set_values_bytes(
        static_cast<uint64_t>(text[rows]));
    header->mutable_tensors(3)->set_bytes(rows * 8);
    header->mutable_tensors(4)->set_bytes(rows);
  }

  const Options options_;
  OpenResponse plan_;
  const std::shared_ptr<Pool> pool_;
  Position position_ MR_GUARDED_BY(pool_->mu);
  uint64_t generation_ MR_GUARDED_BY(pool_->mu) = 0;
};

}  // namespace millrace::device

#endif  // MILLRACE_TESTS_CLIENT_TORCH_FAKE_HOST_LOADER_H_
