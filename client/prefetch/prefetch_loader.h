// NewPrefetchLoader joins a plan, a window of slots and a transport into a
// HostLoader. Two thread domains meet in it: the transport's thread runs
// BatchFetcher, which requests steps, retries them on other servers and
// assembles frames straight into their slots; the consumer takes batches from
// ReadyQueue in the order of the plan. It knows no gRPC.
//
// This is the one place that retries; retry_rule.h has the rules.
//
// The window is fixed, or adapted by WindowControl, which gives unused slots
// back to the allocator one by one.
//
// Threads: owns none. The transport's thread does the bookkeeping and the
// copies.
//
//   MR_ASSIGN_OR_RETURN(auto loader,
//                       NewPrefetchLoader(options, std::move(plan),
//                                         std::move(transport), opened_at));

#ifndef MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_
#define MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"
#include "common/monotonic_now.h"

namespace millrace::prefetch {

// `opened_at`, by the clock `now`, is when opening began, for Stats. `wait`
// replaces waiting where time is simulated: Next() calls it, without a lock
// held and with the max time to wait, until there is a batch. InvalidArgument:
// the options are invalid or do not fit the plan.
absl::StatusOr<std::unique_ptr<HostLoader>> NewPrefetchLoader(
    const HostLoaderOptions& options, OpenResponse plan,
    std::unique_ptr<BatchTransport> transport, absl::Time opened_at,
    std::function<absl::Time()> now = MonotonicNow,
    std::function<void(absl::Duration)> wait = nullptr);

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_
