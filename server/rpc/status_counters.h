// The counters of the rpc component, which GetStatus returns. Atomics, written
// by any thread.

#ifndef MILLRACE_SERVER_RPC_STATUS_COUNTERS_H_
#define MILLRACE_SERVER_RPC_STATUS_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace millrace::rpc {

struct StatusCounters {
  std::atomic<uint64_t> active_streams{0};
  std::atomic<uint64_t> batches_sent{0};  // whole ones
  std::atomic<uint64_t> samples_sent{0};  // their valid rows
  std::atomic<uint64_t> bytes_sent{0};    // payload
  std::atomic<uint64_t> cancelled_sends{0};
  std::atomic<uint64_t> refused_connections{0};
  std::atomic<uint64_t> stalled_connections{0};
  std::atomic<uint64_t> revoked_batches{0};
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_STATUS_COUNTERS_H_
