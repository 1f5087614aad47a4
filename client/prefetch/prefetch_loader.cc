#include "client/prefetch/prefetch_loader.h"

#include <utility>

#include "client/prefetch/batch_fetcher.h"
#include "client/prefetch/ready_queue.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/slot_pool.h"
#include "client/prefetch/window_size.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace millrace::prefetch {
namespace {

std::shared_ptr<SlotPool> NewPool(const HostLoaderOptions& options,
                                  uint32_t slots, uint64_t slot_bytes) {
  const uint32_t spares = SpareSlots(slots);
  if (options.offered != nullptr) {
    options.offered->Start(slot_bytes, slots, spares);
    return std::make_shared<SlotPool>(options.offered, slots + spares,
                                      slot_bytes);
  }
  return std::make_shared<SlotPool>(options.allocator != nullptr
                                        ? options.allocator
                                        : NewPlainSlotAllocator(),
                                    slots + spares, slot_bytes);
}

// Joins the two thread domains: the consumer's calls go to `queue_`, the
// transport's events to `fetcher_`. The domains share the queue and the pool,
// which are thread-safe, and the fetcher's atomic counters.
//
// Locks, in the order in which they may be taken: close_mu_; the queue's; the
// pool's; the transport's for Wake(). Events take no lock of this class. Leases
// may outlive the loader: their callback is removed before the transport stops.
class PrefetchLoader final : public HostLoader {
 public:
  PrefetchLoader(const HostLoaderOptions& options, OpenResponse plan,
                 const Sequence& sequence, uint32_t slots,
                 std::unique_ptr<BatchTransport> transport,
                 absl::Time opened_at, const std::function<absl::Time()>& now,
                 std::function<void(absl::Duration)> wait);
  ~PrefetchLoader() override { Close(); }

  void Start() { transport_->Start(&fetcher_); }

  const OpenResponse& plan() const override { return plan_; }
  uint32_t window() const override { return fetcher_.window(); }
  absl::StatusOr<HostBatch> Next() override;
  absl::StatusOr<std::optional<HostBatch>> NextWithin(
      absl::Duration patience) override;
  Position position() const override { return queue_.position(); }
  absl::Status Seek(Position position) override;
  Stats stats() const override;
  void Close() override;

 private:
  // Called when the consumer has taken or released a batch. Without it, the
  // fetcher would notice the room at the next tick, up to 100 ms later.
  void WakeWhenRoom() {
    if (fetcher_.RoomForCall()) transport_->Wake();
  }

  const HostLoaderOptions options_;
  const OpenResponse plan_;
  // Declared before the members that its events use, so it is destroyed after
  // them; Close() has stopped it by then.
  const std::unique_ptr<BatchTransport> transport_;
  const std::shared_ptr<SlotPool> pool_;
  ReadyQueue queue_;
  BatchFetcher fetcher_;
  const uint32_t first_window_;

  // Held while the transport stops, so that its threads have ended when any
  // Close() has returned.
  Mutex close_mu_;
  bool stopped_ MR_GUARDED_BY(close_mu_) = false;
};

PrefetchLoader::PrefetchLoader(const HostLoaderOptions& options,
                               OpenResponse plan, const Sequence& sequence,
                               uint32_t slots,
                               std::unique_ptr<BatchTransport> transport,
                               absl::Time opened_at,
                               const std::function<absl::Time()>& now,
                               std::function<void(absl::Duration)> wait)
    : options_(options),
      plan_(std::move(plan)),
      transport_(std::move(transport)),
      pool_(NewPool(options, slots, plan_.max_payload_bytes())),
      queue_({.endpoint = options.endpoint,
              .slots = slots,
              .next_timeout = options.next_timeout,
              .opened_at = opened_at},
             sequence, pool_, now, std::move(wait),
             [this] { transport_->Wake(); }),
      fetcher_(options_, plan_, sequence, slots,
               {pool_.get(), &queue_, transport_.get(), now}, opened_at),
      first_window_(fetcher_.window()) {
  // Nothing is leased yet, so the callback does not run before the object is
  // complete.
  pool_->OnRelease([this] { WakeWhenRoom(); });
  if (options_.offered != nullptr) {
    options_.offered->OnOffer([this] { WakeWhenRoom(); });
  }
}

absl::StatusOr<HostBatch> PrefetchLoader::Next() {
  absl::StatusOr<HostBatch> batch = queue_.Next();
  if (batch.ok()) WakeWhenRoom();
  return batch;
}

absl::StatusOr<std::optional<HostBatch>> PrefetchLoader::NextWithin(
    absl::Duration patience) {
  auto batch = queue_.NextWithin(patience);
  if (batch.ok() && batch->has_value()) WakeWhenRoom();
  return batch;
}

absl::Status PrefetchLoader::Seek(Position position) {
  MR_ASSIGN_OR_RETURN(const Sequence sequence,
                      Sequence::Seek(position, options_.start, options_.epochs,
                                     plan_.steps_per_epoch()));
  MR_RETURN_IF_ERROR(queue_.Seek(sequence));
  transport_->Wake();
  return absl::OkStatus();
}

HostLoader::Stats PrefetchLoader::stats() const {
  Stats stats = queue_.stats();
  fetcher_.AddStats(&stats);
  stats.first_window = first_window_;
  stats.open_slots = pool_->held();
  return stats;
}

void PrefetchLoader::Close() {
  // First, and without close_mu_, so that a consumer in Next() returns at once,
  // even while another thread is stopping the transport.
  queue_.Close();
  // A second caller waits for the first.
  MutexLock lock(close_mu_);
  if (stopped_) return;
  // Waits for a running callback. None runs later, so none uses a transport
  // that has stopped.
  pool_->OnRelease(nullptr);
  if (options_.offered != nullptr) options_.offered->OnOffer(nullptr);
  transport_->Stop();
  // The transport writes into no slot any more, and Next() delivers none.
  if (options_.offered != nullptr) options_.offered->Stop();
  stopped_ = true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostLoader>> NewPrefetchLoader(
    const HostLoaderOptions& options, OpenResponse plan,
    std::unique_ptr<BatchTransport> transport, absl::Time opened_at,
    std::function<absl::Time()> now, std::function<void(absl::Duration)> wait) {
  MR_RETURN_IF_ERROR(options.Validate());
  if (options.offered != nullptr &&
      (options.allocator != nullptr || options.read_only_payload)) {
    return absl::InvalidArgumentError(
        "memory that the caller lends (offered) cannot be used together with "
        "allocator or read_only_payload: remove one of them");
  }
  MR_ASSIGN_OR_RETURN(
      const Sequence sequence,
      Sequence::Create(options.start, options.epochs, plan.steps_per_epoch()));
  const uint32_t slots = ChooseWindow(options, plan.max_payload_bytes());
  auto loader = std::make_unique<PrefetchLoader>(
      options, std::move(plan), sequence, slots, std::move(transport),
      opened_at, now, std::move(wait));
  loader->Start();
  return loader;
}

}  // namespace millrace::prefetch
