// HostLoader yields the batches of one rank in the order of the plan, in host
// memory. It keeps a bounded window of steps requested from all servers of the
// endpoint, and requests a step from another server when one fails or is late.
//
// What it is not: it knows neither libtorch nor CUDA. DataLoader
// (client/loader.h) adds devices and tensors.
//
// Threads: one consumer calls Next(). Any thread may call the other methods. A
// waiting Next() continues at the new position after a Seek(), and returns
// Cancelled after a Close().
//
// Ownership: a batch occupies a slot of the loader until the last copy of
// HostBatch::lease dies. The loader shares ownership of the allocator, so
// batches may outlive the loader.
//
//   MR_ASSIGN_OR_RETURN(auto loader, OpenHostLoader(options));
//   while (true) {
//     MR_ASSIGN_OR_RETURN(HostBatch batch, loader->Next());
//     ...
//   }
//
// OpenHostLoader() is in client/receive/open_host_loader.h: it needs gRPC.

#ifndef MILLRACE_CLIENT_PREFETCH_HOST_LOADER_H_
#define MILLRACE_CLIENT_PREFETCH_HOST_LOADER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/diagnosis/server_times.h"
#include "client/prefetch/batch_info.h"
#include "client/prefetch/loader_options.h"
#include "client/prefetch/offered_slots.h"
#include "client/prefetch/slot_allocator.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// A batch in a slot. Movable.
struct HostBatch : BatchInfo {
  BatchHeader header;
  absl::Span<uint8_t> payload;  // its layout is in header.tensors
  // Keeps the slot. The loader reuses the slot when the last copy dies.
  std::shared_ptr<void> lease;
};

struct HostLoaderOptions : LoaderOptions {
  std::shared_ptr<prefetch::SlotAllocator> allocator;  // null: plain memory
  // The caller lends the memory of each batch, instead of an allocator; not
  // together with read_only_payload. The window is as large as the memory that
  // is lent, and batches that the consumer holds do not count. The consumer may
  // reuse the memory of a batch as soon as Next() has returned the batch: the
  // lease does not keep it. After Close(), all of it is the caller's.
  std::shared_ptr<prefetch::OfferedSlots> offered;  // null: allocated
  // The consumer promises not to write to HostBatch::payload. Batches in shared
  // memory are then returned in place, without a copy. That memory is
  // read-only: writing to it ends the process. It counts in the server's memory
  // budget, not in this process, until the batch is released.
  bool read_only_payload = false;
};

class HostLoader {
 public:
  // Counters since Open.
  struct Stats {
    uint64_t batches = 0;
    uint64_t samples = 0;
    uint64_t payload_bytes = 0;
    // Bytes of payload received over the network, as compressed as the spec
    // asks for. Includes batches that are not consumed yet; excludes headers
    // and batches in shared memory.
    uint64_t wire_bytes = 0;
    // Time that Next() waited for a batch, failed calls and the current call
    // included.
    double wait_seconds = 0;
    // Part of wait_seconds in which no server could be reached or all servers
    // were silent, and the state of each server at that time: "10.0.0.1:7001:
    // connection refused".
    double no_answer_seconds = 0;
    std::string no_answer;
    double first_batch_seconds = 0;  // from Open to the first batch
    uint64_t retried_steps = 0;      // requested again after a failure
    uint64_t servers = 0;            // addresses in use now
    uint64_t open_slots = 0;         // held by the consumer now
    uint64_t hedged_steps = 0;  // requested from a second server because late
    uint64_t hedge_wins = 0;    // of these, the second server was first
    uint64_t extra_bytes = 0;   // received and discarded
    // Window now and at the start, number of changes, and the reason of the
    // last change: a clause. A window that the options fix never changes.
    uint32_t window = 0;
    uint32_t first_window = 0;
    uint64_t window_changes = 0;
    std::string window_reason;
    // Time for copying received bytes into slots and hashing them
    // (verify_payload).
    double copy_seconds = 0;
    // Time by stage for each server, servers that are gone included.
    std::vector<diagnosis::ServerTimes> by_server;
  };

  virtual ~HostLoader() = default;  // closes

  // What the servers answered to Open: tensors, steps per epoch, hashes.
  virtual const OpenResponse& plan() const = 0;

  // Current limit of batches that are requested and not yet consumed.
  virtual uint32_t window() const = 0;

  // The next batch of the rank.
  // - OutOfRange: all epochs were delivered.
  // - DeadlineExceeded: no batch within next_timeout; names the endpoint and
  //   the awaited step, or says "all N slots are held by the caller" or that
  //   the caller has lent no memory.
  // - Unavailable: as DeadlineExceeded, and no server can be reached.
  // - Cancelled: closed.
  // - Any other error is that of the batch at position(): all batches before it
  //   were returned. It is final: Next() repeats it until a Seek().
  // After DeadlineExceeded and Unavailable, Next() may be called again.
  virtual absl::StatusOr<HostBatch> Next() = 0;

  // As Next(), but waits at most `patience` in this call; 0: does not wait.
  // nullopt: no batch is there yet. For callers that must return now and then.
  // Calls that return nullopt, one after the other, wait for the same batch:
  // their waits count together towards next_timeout.
  virtual absl::StatusOr<std::optional<HostBatch>> NextWithin(
      absl::Duration patience) = 0;

  // Position after the last batch that Next() returned. After the last step of
  // an epoch it is step 0 of the next epoch.
  virtual Position position() const = 0;

  // Continues at `position`: Next() returns that batch next. Requests in flight
  // are dropped; no Open is needed, and the cost does not grow with the data.
  // Batches that the caller holds stay valid, and their slots count as held.
  // The last epoch remains the one that options.start and options.epochs give.
  // A final error ends, so a job can continue after a sample that cannot be
  // decoded.
  // - InvalidArgument: a step past the end of its epoch, or an epoch past the
  //   last epoch. Nothing has changed.
  // - Cancelled: closed.
  virtual absl::Status Seek(Position position) = 0;

  virtual Stats stats() const = 0;

  // Ends all calls and joins all threads. Idempotent.
  virtual void Close() = 0;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_HOST_LOADER_H_
