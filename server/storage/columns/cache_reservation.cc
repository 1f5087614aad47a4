#include "server/storage/columns/cache_reservation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"

namespace millrace::storage {

absl::StatusOr<uint64_t> ReserveCache(const std::string& path,
                                      const OpenSourceOptions& options,
                                      ByteBudget::Reservation* reserved) {
  ByteBudget* const budget = options.cache_budget;
  if (budget == nullptr) return options.cache_bytes;
  const uint64_t bytes = std::min(options.cache_bytes, budget->capacity());
  if (bytes > 0 && !budget->TryReserve(bytes, reserved)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, ": the cache of decoded row groups needs ", FormatByteSize(bytes),
        ", but the memory budget of ", FormatByteSize(budget->capacity()),
        " has ", FormatByteSize(budget->used()),
        " in use; raise --memory_budget"));
  }
  return bytes;
}

}  // namespace millrace::storage
