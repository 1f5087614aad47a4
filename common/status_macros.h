// Early return for absl::Status and absl::StatusOr.
//
//   MR_RETURN_IF_ERROR(file.Close());
//   MR_ASSIGN_OR_RETURN(auto source, OpenSource(uri));

#ifndef MILLRACE_COMMON_STATUS_MACROS_H_
#define MILLRACE_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define MR_RETURN_IF_ERROR(expr)                       \
  do {                                                 \
    if (::absl::Status mr_status_ = (expr);            \
        !mr_status_.ok()) {                            \
      return mr_status_;                               \
    }                                                  \
  } while (false)

#define MR_MACRO_CONCAT_INNER_(a, b) a##b
#define MR_MACRO_CONCAT_(a, b) MR_MACRO_CONCAT_INNER_(a, b)

#define MR_ASSIGN_OR_RETURN(lhs, expr) \
  MR_ASSIGN_OR_RETURN_IMPL_(MR_MACRO_CONCAT_(mr_statusor_, __LINE__), lhs, expr)

#define MR_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr) \
  auto statusor = (expr);                              \
  if (!statusor.ok()) {                                \
    return std::move(statusor).status();               \
  }                                                    \
  lhs = std::move(statusor).value()

#endif  // MILLRACE_COMMON_STATUS_MACROS_H_
