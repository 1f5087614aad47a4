#include "server/batch/filled_batch.h"

#include <utility>

#include "server/batch/payload_buffer.h"

namespace millrace::batch {
BatchPayload::BatchPayload(uint64_t bytes, ByteBudget::Reservation reservation,
                           std::shared_ptr<BufferPool> pool,
                           std::shared_ptr<PayloadMemory> memory)
    : pool_(std::move(pool)),
      bytes_(bytes),
      reservation_(std::move(reservation)) {
  if (memory != nullptr) data_ = memory->Take(bytes);
  if (data_ != nullptr) {
    memory_ = std::move(memory);
    reservation_.Release();
  } else {
    data_ = pool_ != nullptr ? pool_->Take(bytes, &capacity_)
                             : NewPayloadBuffer(bytes, &capacity_);
  }
}

BatchPayload::~BatchPayload() {
  if (data_ == nullptr) return;
  // Freed before the reservation, so that the budget never reports less than is
  // in use.
  if (memory_ != nullptr) {
    memory_->Give(data_);
  } else if (pool_ != nullptr) {
    pool_->Give(data_, capacity_);
  } else {
    FreePayloadBuffer(data_, capacity_);
  }
}

std::optional<BatchPayload::Lending> BatchPayload::Lend() {
  if (memory_ == nullptr || data_ == nullptr) return std::nullopt;
  const auto lent = memory_->Lend(data_);
  if (!lent.has_value()) return std::nullopt;
  data_ = nullptr;
  return Lending{*lent, std::move(memory_)};
}

}  // namespace millrace::batch
