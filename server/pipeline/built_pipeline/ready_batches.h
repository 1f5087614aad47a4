// ReadyBatches are the payloads that a synthetic source with ready_batches
// sends repeatedly: a few buffers that are filled once and shared by many
// batches in flight. The server then streams without reading, decoding or
// filling, so a measurement shows the cost of sending alone.
//
// A payload is a function of (seed, slot, rows). Its memory is part of the
// budget: a set is reserved as a whole, shared by all runs with the same rows,
// and released with the last run and batch that use it. All sets of an engine
// together are limited to a share of the budget, so that jobs continue beside a
// measurement.
//
// Thread-safe. The layout outlives it and every call of Fill(), the budget
// outlives the last payload.
//
//   MR_ASSIGN_OR_RETURN(auto set, ready.Take(rows, budget, share, pool));
//   set->Fill(step);  // on a worker
//   std::shared_ptr<BatchPayload> payload = Refer(set, step, reservation);

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_READY_BATCHES_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_READY_BATCHES_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "server/batch/batch_layout.h"
#include "server/batch/filled_batch.h"

namespace millrace::pipeline {

// The description of the payloads. Immutable.
struct ReadyRecipe {
  uint64_t seed = 0;
  uint32_t slots = 0;
  std::vector<TensorSpec> tensors;  // the outputs, in the layout's order
};

// The max bytes of all sets of an engine, and the bytes in use. Sets keep it
// alive.
struct ReadyShare {
  explicit ReadyShare(uint64_t bytes) : max_bytes(bytes) {}
  const uint64_t max_bytes;
  std::atomic<uint64_t> taken{0};
};

class ReadySet {
 public:
  // Gives `bytes` back to `share` when it goes.
  ReadySet(std::shared_ptr<const ReadyRecipe> recipe,
           const batch::BatchLayout::Placed& placed,
           std::vector<ByteBudget::Reservation> reservations, uint64_t bytes,
           std::shared_ptr<ReadyShare> share,
           std::shared_ptr<batch::BufferPool> pool);
  ~ReadySet();

  // The payload of `step`; filled once Fill() has returned for it.
  const std::shared_ptr<batch::BatchPayload>& payload(uint64_t step) const {
    return slots_[step % slots_.size()].payload;
  }

  // The digest of that payload (BatchHeader.payload_xxh3); valid after Fill().
  // Hashing the payload for every batch would distort a measurement with ready
  // batches.
  uint64_t payload_xxh3(uint64_t step) const {
    return slots_[step % slots_.size()].xxh3;
  }

  // Computes the payload of `step` once. The first call writes the payload;
  // concurrent calls wait for it.
  void Fill(uint64_t step);

 private:
  struct Slot {
    std::shared_ptr<batch::BatchPayload> payload;
    uint64_t xxh3 = 0;  // of the payload; set before `filled`
    Mutex mu;
    bool filled MR_GUARDED_BY(mu) = false;
  };

  const std::shared_ptr<const ReadyRecipe> recipe_;
  const batch::BatchLayout::Placed placed_;
  const uint64_t bytes_;
  const std::shared_ptr<ReadyShare> share_;
  std::deque<Slot> slots_;
};

class ReadyBatches {
 public:
  ReadyBatches(ReadyRecipe recipe, const batch::BatchLayout* layout);

  // Bytes of a set.
  uint64_t Bytes(uint64_t rows) const;

  // The existing set for `rows`, or a new one. ResourceExhausted with a retry
  // delay: the budget or the share has no room for a new set.
  absl::StatusOr<std::shared_ptr<ReadySet>> Take(
      uint64_t rows, ByteBudget& budget, std::shared_ptr<ReadyShare> share,
      std::shared_ptr<batch::BufferPool> pool);

 private:
  const std::shared_ptr<const ReadyRecipe> recipe_;
  const batch::BatchLayout& layout_;
  Mutex mu_;
  // By rows.
  std::map<uint64_t, std::weak_ptr<ReadySet>> sets_ MR_GUARDED_BY(mu_);
};

// The payload of `step` for one batch, which keeps the set and `reservation`
// (of the batch's own bookkeeping) as long as it lives.
std::shared_ptr<batch::BatchPayload> Refer(std::shared_ptr<ReadySet> set,
                                           uint64_t step,
                                           ByteBudget::Reservation reservation);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_READY_BATCHES_H_
