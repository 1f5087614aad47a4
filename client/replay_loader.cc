#include "client/replay_loader.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

class ReplayLoader final : public DataLoader {
 public:
  // `end_epoch` is the first that is not delivered; 0: there is no end.
  ReplayLoader(std::unique_ptr<DataLoader> inner, uint64_t batches,
               uint64_t end_epoch)
      : inner_(std::move(inner)), batches_(batches), end_epoch_(end_epoch) {}

  const OpenResponse& plan() const override { return inner_->plan(); }

  absl::Status StartAudit(uint64_t) override {
    return absl::FailedPreconditionError(
        "a loader that repeats batches writes no audit log");
  }

  absl::StatusOr<Batch> Next() override {
    {
      MutexLock lock(mu_);
      if (replaying_) return Repeat();
    }
    absl::StatusOr<Batch> batch = inner_->Next();
    if (!batch.ok()) return batch;
    MR_ASSIGN_OR_RETURN(Batch copy, Copy(*batch));
    bool full = false;
    {
      MutexLock lock(mu_);
      copies_.push_back(std::move(copy));
      full = copies_.size() == batches_;
      if (full) {
        replaying_ = true;
        position_ = inner_->position();
      }
    }
    if (full) {
      inner_->Close();
      MR_LOG(INFO) << "the first " << batches_
                   << " batches are repeated from here on (replay_batches)";
    }
    return batch;
  }

  Position position() const override {
    MutexLock lock(mu_);
    return replaying_ ? position_ : inner_->position();
  }

  absl::Status Seek(Position position) override {
    MutexLock lock(mu_);
    if (!replaying_) {
      MR_RETURN_IF_ERROR(inner_->Seek(position));
      ++generation_;
      return absl::OkStatus();
    }
    if (closed_) return absl::CancelledError("the loader was closed");
    const uint64_t steps = plan().steps_per_epoch();
    if (position.step > steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("step ", position.step,
                       " lies past the end of an epoch of ", steps, " steps"));
    }
    position = Normal(position);
    if (end_epoch_ > 0 &&
        (position.epoch > end_epoch_ ||
         (position.epoch == end_epoch_ && position.step > 0))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch ", position.epoch, " lies past the last, ", end_epoch_ - 1));
    }
    position_ = position;
    ++generation_;
    return absl::OkStatus();
  }

  Stats stats() const override {
    Stats stats = inner_->stats();
    MutexLock lock(mu_);
    stats.repeated_batches = repeated_;
    return stats;
  }

  void Close() override {
    inner_->Close();
    MutexLock lock(mu_);
    closed_ = true;
    copies_.clear();
  }

 private:
  // Queued where the batch is, before whatever the caller does with it.
  absl::StatusOr<Batch> Copy(const Batch& batch) const {
    Batch copy = batch;
    try {
      for (NamedTensor& named : copy.tensors) {
        named.tensor = named.tensor.clone();
      }
      // Unlike the slot, the copies' memory is that of torch's allocator.
      if (copy.stream_recorder) {
        copy.stream_recorder = [tensors =
                                    copy.tensors](const c10::Stream& stream) {
          for (const NamedTensor& named : tensors) {
            named.tensor.record_stream(stream);
          }
        };
      }
    } catch (const std::exception& error) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no memory for copies of ", batches_,
          " batches; use a smaller replay_batches: ", error.what()));
    }
    return copy;
  }

  absl::StatusOr<Batch> Repeat() MR_REQUIRES(mu_) {
    if (closed_) return absl::CancelledError("the loader was closed");
    if (end_epoch_ > 0 && position_.epoch >= end_epoch_) {
      return absl::OutOfRangeError("all epochs were delivered");
    }
    Batch batch = copies_[repeated_ % copies_.size()];
    batch.position = position_;
    batch.generation = generation_;
    ++repeated_;
    position_ = Normal({position_.epoch, position_.step + 1});
    return batch;
  }

  Position Normal(Position position) const {
    if (position.step < plan().steps_per_epoch()) return position;
    return {position.epoch + 1, 0};
  }

  const std::unique_ptr<DataLoader> inner_;
  const uint64_t batches_;
  const uint64_t end_epoch_;

  mutable Mutex mu_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  // There are all copies; position_ is ours from then on.
  bool replaying_ MR_GUARDED_BY(mu_) = false;
  std::vector<Batch> copies_ MR_GUARDED_BY(mu_);
  uint64_t repeated_ MR_GUARDED_BY(mu_) = 0;
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
  Position position_ MR_GUARDED_BY(mu_);
};

}  // namespace

absl::Status ValidateReplay(const DataLoader::Options& options) {
  if (options.replay_batches > 0 && !options.audit_file.empty()) {
    return absl::InvalidArgumentError(
        "replay_batches repeats batches, which an audit log would take for "
        "real ones; drop replay_batches or audit_file");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DataLoader>> RepeatBatches(
    std::unique_ptr<DataLoader> loader, const DataLoader::Options& options) {
  uint64_t end_epoch = 0;
  if (options.epochs > 0) {
    end_epoch = options.start.epoch + options.epochs;
    const uint64_t steps = loader->plan().steps_per_epoch();
    const uint64_t batches =
        options.epochs * steps - std::min(options.start.step, steps);
    if (options.replay_batches >= batches) {
      return absl::InvalidArgumentError(
          absl::StrCat("replay_batches is ", options.replay_batches,
                       ", but there are ", batches,
                       " batches in all: none would be repeated; use fewer, or "
                       "more epochs"));
    }
  }
  return std::make_unique<ReplayLoader>(std::move(loader),
                                        options.replay_batches, end_epoch);
}

}  // namespace millrace
