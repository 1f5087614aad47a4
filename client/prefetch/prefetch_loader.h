// NewPrefetchLoader joins a plan, a window of slots and a transport into a
// HostLoader. Two thread domains meet in it: the transport's thread runs
// BatchFetcher, which requests steps, retries them on other servers and
// assembles frames straight into their slots; the consumer takes batches out of
// ReadyQueue in the order of the plan. It knows no gRPC.
//
// This is the one place that retries; call_failure.h has the rules.
//
// The window is fixed, or WindowControl's: then slots that were not needed for
// a while are given back to the allocator, one after the other.
//
// Owns no thread: the transport's carries the bookkeeping and the copies.

#ifndef MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_
#define MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"

namespace millrace {

// A clock that never jumps. Its zero has no meaning.
absl::Time MonotonicNow();

// `opened_at` (of `now`) is when opening began, for Stats. `wait` takes the
// place of waiting where time is simulated: Next() calls it until there is a
// batch, with the longest that it may wait and without a lock held. Errors are
// those of options, and of a plan that does not fit them.
absl::StatusOr<std::unique_ptr<HostLoader>> NewPrefetchLoader(
    const HostLoaderOptions& options, OpenResponse plan,
    std::unique_ptr<BatchTransport> transport, absl::Time opened_at,
    std::function<absl::Time()> now = MonotonicNow,
    std::function<void(absl::Duration)> wait = nullptr);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_
