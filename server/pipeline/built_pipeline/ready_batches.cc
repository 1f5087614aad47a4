#include "server/pipeline/built_pipeline/ready_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "proto/retry_hint.h"
#include "server/storage/synthetic/synthetic_values.h"
#include "xxhash.h"

namespace millrace::pipeline {
namespace {

// ResourceExhausted, which a client retries: other pipelines may return memory.
absl::Status NoRoom(uint64_t slots, uint64_t bytes, const std::string& where) {
  return WithRetryHint(
      absl::ResourceExhaustedError(absl::StrCat(
          "no memory for ", CountText(slots, "ready batch", "ready batches"),
          ": ", FormatByteSize(bytes), " are needed, but of the ", where,
          " are in use: retry, or lower ready_batches (0 needs no such "
          "memory)")),
      "pipeline");
}

}  // namespace

ReadySet::ReadySet(std::shared_ptr<const ReadyRecipe> recipe,
                   const batch::BatchLayout::Placed& placed,
                   std::vector<ByteBudget::Reservation> reservations,
                   uint64_t bytes, std::shared_ptr<ReadyShare> share,
                   std::shared_ptr<batch::BufferPool> pool)
    : recipe_(std::move(recipe)),
      placed_(placed),
      bytes_(bytes),
      share_(std::move(share)) {
  for (ByteBudget::Reservation& reservation : reservations) {
    slots_.emplace_back().payload = std::make_shared<batch::BatchPayload>(
        placed_.payload_bytes(), std::move(reservation), pool);
  }
}

// Called when the last run and the last payload of the set are gone. The
// payloads own the reservations.
ReadySet::~ReadySet() { share_->taken.fetch_sub(bytes_); }

void ReadySet::Fill(uint64_t step) {
  const uint64_t number = step % slots_.size();
  Slot& slot = slots_[number];
  // Held while the payload is written. Another run that needs the same slot
  // waits here instead of writing it a second time, and sees the bytes through
  // this lock. Slots are independent of each other. The payload is read-only
  // once `filled` is set.
  MutexLock lock(slot.mu);
  if (slot.filled) return;
  uint8_t* const data = slot.payload->data();
  // The key is that of the slot, not of the step: the payload of a slot does
  // not depend on the step that fills it.
  const uint64_t slot_key = storage::SyntheticWord(recipe_->seed, number);
  BatchHeader header;
  placed_.Describe(header);
  for (size_t i = 0; i < recipe_->tensors.size(); ++i) {
    const TensorSpec& tensor = recipe_->tensors[i];
    const TensorHeader& place = header.tensors(static_cast<int>(i));
    storage::FillSynthetic(
        tensor.dtype(), tensor.num_classes(),
        storage::SyntheticWord(slot_key, i),
        absl::MakeSpan(data + place.offset(), place.bytes()));
  }
  for (uint64_t row = 0; row < placed_.rows(); ++row) {
    placed_.SetSample(data, row, static_cast<int64_t>(row), true);
  }
  placed_.ZeroGaps(data);
  slot.xxh3 = XXH3_64bits(data, slot.payload->bytes());
  slot.filled = true;
}

ReadyBatches::ReadyBatches(ReadyRecipe recipe, const batch::BatchLayout* layout)
    : recipe_(std::make_shared<const ReadyRecipe>(std::move(recipe))),
      layout_(*layout) {}

uint64_t ReadyBatches::Bytes(uint64_t rows) const {
  return recipe_->slots * layout_.PayloadBytes(rows);
}

absl::StatusOr<std::shared_ptr<ReadySet>> ReadyBatches::Take(
    uint64_t rows, ByteBudget& budget, std::shared_ptr<ReadyShare> share,
    std::shared_ptr<batch::BufferPool> pool) {
  // Declared before the lock, so that insufficient reservations are returned
  // after it: the callbacks of granted requests run at once.
  std::vector<ByteBudget::Reservation> reservations(recipe_->slots);
  MutexLock lock(mu_);
  // Expired entries belong to sets that are gone.
  std::erase_if(sets_, [](const auto& set) { return set.second.expired(); });
  if (const auto it = sets_.find(rows); it != sets_.end()) {
    // The last owner may release the set at this moment. Then lock() returns
    // null, and a new set is made while the old one is still being destroyed.
    if (auto set = it->second.lock()) return set;
  }
  const uint64_t bytes = Bytes(rows);
  for (ByteBudget::Reservation& reservation : reservations) {
    if (!budget.TryReserve(layout_.PayloadBytes(rows), &reservation)) {
      return NoRoom(recipe_->slots, bytes,
                    absl::StrCat("server's memory budget of ",
                                 FormatByteSize(budget.capacity()), ", ",
                                 FormatByteSize(budget.used())));
    }
  }
  // Added first and compared afterwards: the sets of several pipelines share
  // the counter without a lock, so two concurrent sets cannot both take the
  // last room. Both may be refused; the clients retry.
  const uint64_t others = share->taken.fetch_add(bytes);
  if (others + bytes > share->max_bytes) {
    share->taken.fetch_sub(bytes);
    return NoRoom(recipe_->slots, bytes,
                  absl::StrCat(FormatByteSize(share->max_bytes),
                               " for all ready batches together, ",
                               FormatByteSize(others)));
  }
  auto set = std::make_shared<ReadySet>(recipe_, layout_.ForRows(rows),
                                        std::move(reservations), bytes,
                                        std::move(share), std::move(pool));
  // A weak pointer: only runs and payloads keep the set alive.
  sets_[rows] = set;
  return set;
}

std::shared_ptr<batch::BatchPayload> Refer(
    std::shared_ptr<ReadySet> set, uint64_t step,
    ByteBudget::Reservation reservation) {
  // The set keeps the payload's memory; the reservation counts the batch
  // itself. Both are released with the last reference to this pointer, on any
  // thread (usually a gRPC thread).
  struct Holder {
    std::shared_ptr<ReadySet> set;
    ByteBudget::Reservation reservation;
  };
  auto holder = std::make_shared<Holder>();
  batch::BatchPayload* const payload = set->payload(step).get();
  holder->set = std::move(set);
  holder->reservation = std::move(reservation);
  return std::shared_ptr<batch::BatchPayload>(std::move(holder), payload);
}

}  // namespace millrace::pipeline
