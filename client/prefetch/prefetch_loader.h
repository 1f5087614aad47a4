// NewPrefetchLoader joins a plan, a window of slots and a transport into a
// HostLoader: which steps are asked for, where, and again where when a server
// fails; frames are assembled straight into their slots; batches come out in
// the order of the plan. It knows no gRPC.
//
// This is the one place that retries. Retryable are Unavailable (elsewhere, or
// after a backoff; so is every status that is not a server's own) and
// ResourceExhausted with the server's delay. A server that does not serve the
// plan (FailedPrecondition, NotFound, Unimplemented) is left out while others
// may. A step whose answer is damaged (frames that cannot be read or do not
// fit, a digest that does not match: DataLoss without a server's ErrorDetail)
// is asked of another server once, where there is one. Everything else is
// final.
//
// Two calls may be under way for one step: when it is late (HedgePolicy says
// when), or when the first server fell silent. Each fills a slot of its own,
// the second one a spare, so a batch is what one server sent, whole, and a
// damaged answer spoils no other. The first to be whole is handed out; the
// other slot is free again at once, because nobody but this thread writes into
// it, and a call that has nothing left to bring is cancelled. Who is still
// under way with other steps goes on, and what it sends of this one is not
// copied.
//
// The window is fixed, or WindowTuner's: then slots that were not needed for a
// while are given back to the allocator, one after the other. What is asked for
// where and when depends on it, what comes out does not.
//
// Owns no thread: the transport's carries the bookkeeping and the copies.

#ifndef MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_
#define MILLRACE_CLIENT_PREFETCH_PREFETCH_LOADER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"

namespace millrace {

// A clock that never jumps. Its zero has no meaning.
absl::Time MonotonicNow();

// For batches of at most `max_payload_bytes`, as HostLoaderOptions says: slots,
// which are the largest window, and the window to begin with.
uint32_t ChooseWindow(const HostLoaderOptions& options,
                      uint64_t max_payload_bytes);
uint32_t ChooseFirstWindow(const HostLoaderOptions& options,
                           uint64_t max_payload_bytes);

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
