// LivePayloads counts the payloads that gRPC still refers to, so that the
// budget they are charged to can outlive them.
//
// Thread-safe. Shared: it lives as long as the last payload.

#ifndef MILLRACE_SERVER_RPC_LIVE_PAYLOADS_H_
#define MILLRACE_SERVER_RPC_LIVE_PAYLOADS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace millrace::rpc {

class LivePayloads {
 public:
  void Add() {
    MutexLock lock(mu_);
    ++count_;
  }
  void Remove() {
    MutexLock lock(mu_);
    if (--count_ == 0) none_.NotifyAll();
  }
  // False when some were left after `timeout`.
  bool AwaitNone(absl::Duration timeout) {
    const SteadyTime deadline = SteadyDeadline(timeout);
    MutexLock lock(mu_);
    while (count_ != 0) {
      if (!none_.WaitUntil(lock, deadline)) return count_ == 0;
    }
    return true;
  }

 private:
  Mutex mu_;
  uint64_t count_ MR_GUARDED_BY(mu_) = 0;
  CondVar none_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_LIVE_PAYLOADS_H_
