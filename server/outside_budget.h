// The memory that a server takes in addition to its memory budget: code,
// libraries, and gRPC's own buffers for connections and requests.
//
// A constant.
//
//   expected = budget.capacity() + kOutsideBudgetBytes;

#ifndef MILLRACE_SERVER_OUTSIDE_BUDGET_H_
#define MILLRACE_SERVER_OUTSIDE_BUDGET_H_

#include <cstdint>

namespace millrace::server {

inline constexpr uint64_t kOutsideBudgetBytes = 200 << 20;

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_OUTSIDE_BUDGET_H_
