#include "server/pipeline/ready_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "server/storage/synthetic/synthetic_values.h"
#include "xxhash.h"

namespace millrace {
namespace {

// When a client whose set found no room should ask again.
constexpr int64_t kRetryDelayMs = 500;

absl::Status NoRoom(uint64_t slots, uint64_t bytes, const std::string& where) {
  ErrorDetail detail = MakeErrorDetail("pipeline");
  detail.set_retry_delay_ms(kRetryDelayMs);
  return WithErrorDetail(
      absl::ResourceExhaustedError(
          absl::StrCat("the ", slots, " ready batches found no ", bytes,
                       " bytes of the ", where, " are in use: ask again")),
      detail);
}

}  // namespace

ReadySet::ReadySet(std::shared_ptr<const ReadyRecipe> recipe,
                   const BatchLayout::Placed& placed,
                   std::vector<ByteBudget::Reservation> reservations,
                   uint64_t bytes, std::shared_ptr<ReadyShare> share,
                   std::shared_ptr<BufferPool> pool)
    : recipe_(std::move(recipe)),
      placed_(placed),
      bytes_(bytes),
      share_(std::move(share)) {
  for (ByteBudget::Reservation& reservation : reservations) {
    slots_.emplace_back().payload = std::make_shared<BatchPayload>(
        placed_.payload_bytes(), std::move(reservation), pool);
  }
}

ReadySet::~ReadySet() { share_->taken.fetch_sub(bytes_); }

void ReadySet::Fill(uint64_t step) {
  const uint64_t number = step % slots_.size();
  Slot& slot = slots_[number];
  MutexLock lock(slot.mu);
  if (slot.filled) return;
  uint8_t* const data = slot.payload->data();
  const uint64_t slot_key = SyntheticWord(recipe_->seed, number);
  BatchHeader header;
  placed_.Describe(header);
  for (size_t i = 0; i < recipe_->tensors.size(); ++i) {
    const TensorSpec& tensor = recipe_->tensors[i];
    const TensorHeader& place = header.tensors(static_cast<int>(i));
    FillSynthetic(tensor.dtype(), tensor.num_classes(),
                  SyntheticWord(slot_key, i),
                  absl::MakeSpan(data + place.offset(), place.bytes()));
  }
  for (uint64_t row = 0; row < placed_.rows(); ++row) {
    placed_.SetSample(data, row, static_cast<int64_t>(row), true);
  }
  placed_.ZeroGaps(data);
  slot.xxh3 = XXH3_64bits(data, slot.payload->bytes());
  slot.filled = true;
}

ReadyBatches::ReadyBatches(ReadyRecipe recipe, const BatchLayout* layout)
    : recipe_(std::make_shared<const ReadyRecipe>(std::move(recipe))),
      layout_(*layout) {}

uint64_t ReadyBatches::Bytes(uint64_t rows) const {
  return recipe_->slots * layout_.PayloadBytes(rows);
}

absl::StatusOr<std::shared_ptr<ReadySet>> ReadyBatches::Take(
    uint64_t rows, ByteBudget& budget, std::shared_ptr<ReadyShare> share,
    std::shared_ptr<BufferPool> pool) {
  // Given back outside the lock when they are not enough: others take them.
  std::vector<ByteBudget::Reservation> reservations(recipe_->slots);
  MutexLock lock(mu_);
  std::erase_if(sets_, [](const auto& set) { return set.second.expired(); });
  if (const auto it = sets_.find(rows); it != sets_.end()) {
    if (auto set = it->second.lock()) return set;
  }
  const uint64_t bytes = Bytes(rows);
  for (ByteBudget::Reservation& reservation : reservations) {
    if (!budget.TryReserve(layout_.PayloadBytes(rows), &reservation)) {
      return NoRoom(
          recipe_->slots, bytes,
          absl::StrCat("server's ", budget.capacity(),
                       " bytes of memory budget, of which ", budget.used()));
    }
  }
  const uint64_t others = share->taken.fetch_add(bytes);
  if (others + bytes > share->most) {
    share->taken.fetch_sub(bytes);
    return NoRoom(recipe_->slots, bytes,
                  absl::StrCat(share->most,
                               " bytes that all ready batches together may "
                               "have, of which ",
                               others));
  }
  auto set = std::make_shared<ReadySet>(recipe_, layout_.ForRows(rows),
                                        std::move(reservations), bytes,
                                        std::move(share), std::move(pool));
  sets_[rows] = set;
  return set;
}

std::shared_ptr<BatchPayload> Refer(std::shared_ptr<ReadySet> set,
                                    uint64_t step,
                                    ByteBudget::Reservation reservation) {
  struct Holder {
    std::shared_ptr<ReadySet> set;
    ByteBudget::Reservation reservation;
  };
  auto holder = std::make_shared<Holder>();
  BatchPayload* const payload = set->payload(step).get();
  holder->set = std::move(set);
  holder->reservation = std::move(reservation);
  return std::shared_ptr<BatchPayload>(std::move(holder), payload);
}

}  // namespace millrace
