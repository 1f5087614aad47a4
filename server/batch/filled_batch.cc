#include "server/batch/filled_batch.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/logging.h"

namespace millrace {
namespace {

uint8_t* Allocate(uint64_t bytes, BufferPool* pool, uint64_t* capacity) {
  if (pool != nullptr) return pool->Take(bytes, capacity);
  *capacity = (std::max<uint64_t>(bytes, 1) + 63) / 64 * 64;
  auto* data = static_cast<uint8_t*>(std::aligned_alloc(64, *capacity));
  MR_CHECK(data != nullptr) << "the system has no " << bytes
                            << " bytes for a batch: lower --memory_budget";
  return data;
}

}  // namespace

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
    data_ = Allocate(bytes, pool_.get(), &capacity_);
  }
}

BatchPayload::~BatchPayload() {
  if (data_ == nullptr) return;
  // Before the reservation: the budget never says less than is in use.
  if (memory_ != nullptr) {
    memory_->Give(data_);
  } else if (pool_ != nullptr) {
    pool_->Give(data_, capacity_);
  } else {
    std::free(data_);
  }
}

std::optional<BatchPayload::Lending> BatchPayload::Lend() {
  if (memory_ == nullptr || data_ == nullptr) return std::nullopt;
  const auto lent = memory_->Lend(data_);
  if (!lent.has_value()) return std::nullopt;
  data_ = nullptr;
  return Lending{*lent, std::move(memory_)};
}

}  // namespace millrace
