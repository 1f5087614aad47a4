// StreamRegistry knows the GetBatches calls in progress. Its thread cancels
// calls whose client reads nothing, so that a stuck client does not hold
// memory. While other clients wait for memory, the thread takes batches back
// from slow readers. Without calls it returns memory to the system. At shutdown
// it waits for streams or ends them.
//
// Thread-safe. Owns one thread; streams own themselves.

#ifndef MILLRACE_SERVER_RPC_STREAM_REGISTRY_H_
#define MILLRACE_SERVER_RPC_STREAM_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "server/rpc/client_shares.h"
#include "server/rpc/status_counters.h"

namespace millrace::rpc {

class BatchStream;

class StreamRegistry {
 public:
  struct Options {
    // Time after which a blocked write cancels its call; a pause of the whole
    // process does not count. Above 0.
    absl::Duration send_timeout;
    // Time that the oldest batch of a client waits to be sent after which the
    // client is a slow reader. Above 0.
    absl::Duration batch_timeout;
    // A memory budget that leaves the given bytes for batches; 0: not known.
    std::function<uint64_t(uint64_t)> budget_for;
    // Tell whether a request waits for memory. Not owned.
    const ByteBudget* budget = nullptr;
    ClientShares* shares = nullptr;
    // Called on the registry's thread about every second, with whether there
    // has been no call since the last time.
    std::function<void(bool idle)> tend;
  };

  StreamRegistry(Options options, std::shared_ptr<StatusCounters> counters);
  // Every stream must be gone.
  ~StreamRegistry();

  // A stream is registered from its constructor to its OnDone, so a stream that
  // is found under the lock is alive. Calls on streams under the lock return
  // the work that must be done without the lock (BatchStream::Deferred).
  void Add(BatchStream* stream);
  void Remove(BatchStream* stream);

  // Streams of which one write has been in flight for `timeout`.
  uint64_t Blocked(absl::Duration timeout);

  // Addresses whose share of the memory is full, while clients of theirs have
  // had nothing for `batch_timeout`.
  std::vector<FullShare> FullShares() const;

  // Streams of each peer (BatchStream::peer()).
  std::map<std::string, uint64_t> CallsByPeer();

  // False when streams were left after `timeout`.
  bool AwaitEmpty(absl::Duration timeout);

  // Ends every stream with `status`.
  void StopAll(const absl::Status& status);

 private:
  void Watch();
  // Time before `since` does not count.
  void CancelBlocked(SteadyTime since);
  // Tells streams that are slow readers.
  void MarkSlow(SteadyTime now, SteadyTime since);
  // Takes back, as far as other clients wait for memory, the batches that
  // clients have above their shares, slowest client first; then the batches
  // that slow connections of a host have above its share.
  void TakeBackExcess(SteadyTime now, SteadyTime since);
  FullShare Describe(const ClientShares::FullHost& host) const;
  // Logs why clients get nothing, and what to do.
  void SayFullShares(SteadyTime now, SteadyTime since);

  const Options options_;
  const std::shared_ptr<StatusCounters> counters_;

  // Taken before the locks of streams; no stream takes it under a lock of its
  // own.
  Mutex mu_;
  CondVar changed_;
  bool closing_ MR_GUARDED_BY(mu_) = false;
  std::unordered_set<BatchStream*> streams_ MR_GUARDED_BY(mu_);
  // There was a stream at some time since the last `tend`.
  bool had_streams_ MR_GUARDED_BY(mu_) = false;
  // Last: it uses all of the above.
  std::thread watcher_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_STREAM_REGISTRY_H_
