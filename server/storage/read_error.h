// The errors of reading one sample, told the same way by every format.

#ifndef MILLRACE_SERVER_STORAGE_READ_ERROR_H_
#define MILLRACE_SERVER_STORAGE_READ_ERROR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

// OutOfRange: there is no sample `index` among `samples`.
absl::Status NoSuchSample(int64_t index, int64_t samples);

// `status` with its place in storage (proto/error_detail.h) unless an inner
// stage has named one; OK stays OK.
absl::Status AtSample(absl::Status status, absl::string_view shard, int64_t row,
                      int64_t index);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_READ_ERROR_H_
