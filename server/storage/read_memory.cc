#include "server/storage/read_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/usage_error.h"

namespace millrace::storage {

ReadMemory::ReadMemory(ByteBudget::Reservation largest,
                       ByteBudget::Reservation others, uint64_t largest_bytes)
    : largest_(std::move(largest)),
      others_(std::move(others)),
      largest_bytes_(largest_bytes),
      room_(largest_bytes == 0 ? UINT64_MAX : largest_bytes + others_.bytes()) {
}

absl::StatusOr<std::unique_ptr<ReadMemory>> ReadMemory::Reserve(
    const ReadUse& use, const OpenSourceOptions& options,
    ByteBudget::Reservation* list) {
  ByteBudget::Reservation largest;
  ByteBudget::Reservation others;
  if (options.read_budget == nullptr) {
    return std::unique_ptr<ReadMemory>(
        new ReadMemory(std::move(largest), std::move(others), 0));
  }
  const uint64_t bytes = FileRoom::Charge(use.largest_bytes);
  ByteBudget* const lists = options.metadata_budget;
  if (lists != nullptr && !lists->TryReserve(bytes, &largest)) {
    const uint64_t room = lists->capacity() - lists->used();
    // The advice is for the dataset as a whole.
    const uint64_t list_bytes = list->bytes();
    list->Release();
    const std::string advice =
        options.metadata_advice
            ? options.metadata_advice(list_bytes + bytes, use.dataset)
            : "";
    return UsageError(absl::ResourceExhaustedError(absl::StrCat(
        use.largest, ": the memory budget has ", FormatExactByteSize(room),
        " for ", use.largest_of,
        advice.empty() && use.remedy.empty() ? "" : ": ", advice,
        advice.empty() || use.remedy.empty() ? "" : ", ", use.remedy)));
  }
  // Other sources may hold all of it. The files are then read one by one.
  const uint64_t free =
      std::min(options.read_bytes,
               options.read_budget->capacity() - options.read_budget->used());
  if (free == 0 || !options.read_budget->TryReserve(free, &others)) {
    MR_LOG(WARNING) << use.one_at_a_time;
  }
  return std::unique_ptr<ReadMemory>(
      new ReadMemory(std::move(largest), std::move(others), bytes));
}

}  // namespace millrace::storage
