// Arrow's errors as ours.

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_ARROW_ERROR_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_ARROW_ERROR_H_

#include <arrow/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

// Of reading: what Arrow cannot make sense of is damaged (DataLoss). Memory
// that ran out is ResourceExhausted; a read that the system has failed (EIO,
// ESTALE, ETIMEDOUT) is Unavailable: nothing is known of the bytes, and a
// sample must not pass for a bad one. "cannot ACTION PATH: ...".
absl::Status ArrowReadError(const arrow::Status& status,
                            absl::string_view action, absl::string_view path);

// Of writing: the errno where Arrow knows it (ResourceExhausted when the disk
// is full).
absl::Status ArrowWriteError(const arrow::Status& status,
                             absl::string_view action, absl::string_view path);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_ARROW_ERROR_H_
