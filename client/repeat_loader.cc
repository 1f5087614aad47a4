#include "client/repeat_loader.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prefetch/sequence.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

class RepeatLoader final : public DataLoader {
 public:
  RepeatLoader(std::unique_ptr<DataLoader> inner, const Options& options)
      : inner_(std::move(inner)),
        batches_(options.repeat_batches),
        start_(options.start),
        epochs_(options.epochs) {}

  const OpenResponse& plan() const override { return inner_->plan(); }

  absl::Status StartAudit(uint64_t) override {
    return absl::FailedPreconditionError(
        "a loader that repeats batches writes no audit log");
  }

  absl::StatusOr<Batch> Next() override {
    {
      MutexLock lock(mu_);
      // Set once and never reset: from then on inner_ is not used for batches.
      if (repeats_.has_value()) return Repeat();
    }
    // Without the lock, because Next() may wait for servers: Close() and Seek()
    // of other threads go on meanwhile.
    absl::StatusOr<Batch> batch = inner_->Next();
    if (!batch.ok()) return batch;
    MR_ASSIGN_OR_RETURN(Batch copy, Copy(*batch));
    bool full = false;
    {
      MutexLock lock(mu_);
      copies_.push_back(std::move(copy));
      // One thread calls Next(), so copies_ and the position of inner_ belong
      // to the same batch here.
      full = copies_.size() == batches_;
      if (full) {
        MR_ASSIGN_OR_RETURN(repeats_, SequenceFrom(inner_->position()));
      }
    }
    if (full) {
      // Frees the slots and the connections; its counters stay readable for
      // stats().
      inner_->Close();
      MR_LOG(INFO) << "the loader repeats its first "
                   << CountText(batches_, "batch", "batches")
                   << " from now on (repeat_batches)";
    }
    return batch;
  }

  Position position() const override {
    MutexLock lock(mu_);
    return repeats_.has_value() ? repeats_->At(next_) : inner_->position();
  }

  absl::Status Seek(Position position) override {
    MutexLock lock(mu_);
    if (closed_) return absl::CancelledError("the loader was closed");
    if (repeats_.has_value()) {
      MR_ASSIGN_OR_RETURN(repeats_, SequenceFrom(position));
      next_ = 0;
    } else {
      MR_RETURN_IF_ERROR(inner_->Seek(position));
    }
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
    // First, and without the lock: it ends a Next() that waits in inner_.
    inner_->Close();
    MutexLock lock(mu_);
    closed_ = true;
    copies_.clear();
  }

 private:
  // Clones on the batch's own stream, before any work that the caller queues
  // there.
  absl::StatusOr<Batch> Copy(const Batch& batch) const {
    Batch copy = batch;
    try {
      for (NamedTensor& named : copy.tensors) {
        named.tensor = named.tensor.clone();
      }
      // Unlike a slot, the memory of the copies belongs to libtorch's
      // allocator.
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
          "no memory to copy ", CountText(batches_, "batch", "batches"),
          "; use a smaller repeat_batches: ", error.what()));
    }
    return copy;
  }

  absl::StatusOr<Batch> Repeat() MR_REQUIRES(mu_) {
    if (closed_) return absl::CancelledError("the loader was closed");
    if (next_ == repeats_->total()) {
      return absl::OutOfRangeError("all epochs were delivered");
    }
    Batch batch = copies_[repeated_++ % copies_.size()];
    batch.position = repeats_->At(next_++);
    batch.generation = generation_;
    return batch;
  }

  absl::StatusOr<prefetch::Sequence> SequenceFrom(Position position) const {
    return prefetch::Sequence::Seek(position, start_, epochs_,
                                    plan().steps_per_epoch());
  }

  const std::unique_ptr<DataLoader> inner_;
  const uint64_t batches_;
  const Position start_;
  const uint64_t epochs_;

  mutable Mutex mu_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  // The batches of this loader, once all copies exist: next_ is the number of
  // the next one. Nullopt: inner_ delivers.
  std::optional<prefetch::Sequence> repeats_ MR_GUARDED_BY(mu_);
  uint64_t next_ MR_GUARDED_BY(mu_) = 0;
  std::vector<Batch> copies_ MR_GUARDED_BY(mu_);
  uint64_t repeated_ MR_GUARDED_BY(mu_) = 0;
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataLoader>> RepeatBatches(
    std::unique_ptr<DataLoader> loader, const DataLoader::Options& options) {
  MR_ASSIGN_OR_RETURN(
      const prefetch::Sequence all,
      prefetch::Sequence::Create(options.start, options.epochs,
                                 loader->plan().steps_per_epoch()));
  if (options.repeat_batches >= all.total()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "repeat_batches is ", options.repeat_batches, ", but the run has only ",
        CountText(all.total(), "batch", "batches"),
        " in all, so none would be repeated; use a smaller "
        "repeat_batches or more epochs"));
  }
  return std::make_unique<RepeatLoader>(std::move(loader), options);
}

}  // namespace millrace
