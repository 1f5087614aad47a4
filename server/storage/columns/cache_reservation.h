// Takes the memory of a dataset's cache of decoded row groups or record batches
// from the memory budget.
//
//   ByteBudget::Reservation reserved;
//   MR_ASSIGN_OR_RETURN(const uint64_t bytes,
//                       ReserveCache(path, options, &reserved));

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_CACHE_RESERVATION_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_CACHE_RESERVATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

// Returns the bytes of the cache: options.cache_bytes, at most the budget.
// ResourceExhausted: they are in use; names `path` and the flag.
absl::StatusOr<uint64_t> ReserveCache(const std::string& path,
                                      const OpenSourceOptions& options,
                                      ByteBudget::Reservation* reserved);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_CACHE_RESERVATION_H_
