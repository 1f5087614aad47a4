// StreamRegistry knows the GetBatches calls under way. Its thread cancels those
// whose client does not take what is sent, so that memory does not stay with a
// client that is stuck; at shutdown it waits for streams or ends them.
//
// Thread-safe. Owns one thread; streams own themselves.

#ifndef MILLRACE_SERVER_RPC_STREAM_REGISTRY_H_
#define MILLRACE_SERVER_RPC_STREAM_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/rpc/counters.h"

namespace millrace {

class BatchStream;

class StreamRegistry {
 public:
  // A write that is blocked for `send_timeout` cancels its call; a pause of the
  // whole process does not count.
  StreamRegistry(absl::Duration send_timeout,
                 std::shared_ptr<RpcCounters> counters);
  // Every stream must be gone.
  ~StreamRegistry();

  void Add(BatchStream* stream);
  void Remove(BatchStream* stream);

  // Streams of which one write has been under way for so long.
  uint64_t Blocked(absl::Duration timeout);

  // False when streams were left after `timeout`.
  bool AwaitEmpty(absl::Duration timeout);

  // Ends every stream with `status`.
  void StopAll(const absl::Status& status);

 private:
  void Watch();
  // Time before `since` does not count.
  void CancelBlocked(SteadyTime since);

  const absl::Duration send_timeout_;
  const std::shared_ptr<RpcCounters> counters_;

  Mutex mu_;
  CondVar changed_;
  bool closing_ MR_GUARDED_BY(mu_) = false;
  std::unordered_set<BatchStream*> streams_ MR_GUARDED_BY(mu_);
  std::thread watcher_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_RPC_STREAM_REGISTRY_H_
