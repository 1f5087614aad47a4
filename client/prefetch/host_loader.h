// HostLoader yields a rank's batches in order, in host memory: it opens the
// plan, keeps a bounded window of steps asked for over all servers, asks again
// elsewhere when one fails and hands the batches out in the order of the plan.
// It knows neither libtorch nor CUDA: memory comes from a SlotAllocator.
//
// One consumer calls Next(). Seek() and Close() may be called from any thread:
// a Next() that waits then goes on at the new position, or returns Cancelled.
// Slots must be given back before the loader is
// destroyed, unless Options::allocator outlives the leases (shared ownership).
//
//   MR_ASSIGN_OR_RETURN(auto loader, OpenHostLoader(options));
//   while (true) {
//     MR_ASSIGN_OR_RETURN(HostBatch batch, loader->Next());
//     ...
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_HOST_LOADER_H_
#define MILLRACE_CLIENT_PREFETCH_HOST_LOADER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/diagnosis/server_times.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// Where the memory of slots comes from: plain, pinned, shared.
class SlotAllocator {
 public:
  virtual ~SlotAllocator() = default;
  // 64-byte aligned, or nullptr when there is none.
  virtual uint8_t* Allocate(uint64_t bytes) = 0;
  virtual void Free(uint8_t* data, uint64_t bytes) = 0;
};

// malloc'd memory.
std::shared_ptr<SlotAllocator> NewPlainSlotAllocator();

// Whether batches of a server on the same machine come in memory that it shares
// with this process instead of over the network (docs/operations.md).
enum class SameHost {
  kOff,
  kAuto,  // where it can be; otherwise the log says once why not
  // A server that cannot share memory is not used. One that could, and ends the
  // sharing because others need the memory, sends its batches over the network
  // until it shares again.
  kRequire,
};

// Resume state: the next batch to hand out. (epoch, steps_per_epoch) is the
// same place as (epoch + 1, 0).
struct Position {
  uint64_t epoch = 0;
  uint64_t step = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// A batch in a slot. Movable; the slot goes back to the loader when the last
// copy of `lease` dies. `payload` follows `header.tensors`.
struct HostBatch {
  Position position;
  BatchHeader header;
  absl::Span<uint8_t> payload;
  std::shared_ptr<void> lease;
  // Calls of Seek() before it: tells a batch of the old place from one of the
  // new.
  uint64_t generation = 0;
};

struct HostLoaderOptions {
  // "host:port", several separated by commas, or a DNS name with port that
  // resolves to several addresses.
  std::string endpoint;
  PipelineSpec spec;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  Position start;
  // Epochs to deliver, counted from start.epoch; 0: without end.
  uint64_t epochs = 1;
  // Batches asked for and not yet consumed, over all servers. N: always so
  // many, with those that the consumer holds. 0: it follows what is measured
  // (WindowTuner), within window_bytes: what the consumer holds is not counted
  // in it, but together they are no more than fit, at least 4 and at most 256.
  // While second requests are under way, up to 4 batches of memory come on top
  // (1 for each 8 of the largest window).
  uint32_t window = 0;
  uint64_t window_bytes = 256 << 20;
  // Where a window that follows begins; for measurements. 0: what fits into 32
  // MiB, at least 16, at most 64, as far as window_bytes allows. Not beside a
  // fixed window.
  uint32_t initial_window = 0;
  // An endpoint that does not answer Open within it is given up.
  absl::Duration open_timeout = absl::Seconds(5);
  // Next() without a batch for so long fails with DeadlineExceeded.
  absl::Duration next_timeout = absl::Minutes(5);
  // A step without progress for so long is asked elsewhere.
  absl::Duration step_timeout = absl::Seconds(15);
  // A step that is late and needed soon is asked of a second server; the first
  // answer wins. At most this share of the steps, in the long run; 0: never.
  double hedge_share = 0.05;
  // Late is what takes 1.5 times as long as 95 of 100 steps did, or 4 times as
  // long as half of them, and at least this.
  absl::Duration hedge_floor = absl::Milliseconds(20);
  // Ask the server for a digest (XXH3-64) of every payload and compare the
  // payload that arrives with it: TCP's checksum lets some flipped bits pass.
  // A payload that differs is requested again, once; the second time Next()
  // returns DataLoss. Off: saves the time of a hash over the payload, and a
  // damaged payload is handed out.
  bool verify_payload = true;
  // Refuse to start when the server's plan differs; empty: take what it says.
  std::string expected_plan_hash;
  std::string expected_fingerprint;
  std::shared_ptr<SlotAllocator> allocator;  // null: plain
  SameHost same_host = SameHost::kOff;
  // The consumer never writes to HostBatch::payload. Batches in shared memory
  // are then given out where they lie, without a copy; the memory is read-only,
  // writing to it ends the process, and until a batch is let go of it counts in
  // the server's budget, not in this process.
  bool read_only_payload = false;

  absl::Status Validate() const;
};

class HostLoader {
 public:
  struct Stats {
    uint64_t batches = 0;
    uint64_t samples = 0;
    uint64_t payload_bytes = 0;
    // As they came over the connection, packed where the spec asks for it; with
    // what was asked for ahead, without headers and batches in shared memory.
    uint64_t wire_bytes = 0;
    // That Next() waited, for no batch and until now, too.
    double wait_seconds = 0;
    // Of these, while no server could be reached or all were silent, and what
    // each server said or did then: "10.0.0.1:7001: connection refused".
    double no_answer_seconds = 0;
    std::string no_answer;
    double first_batch_seconds = 0;  // from Open to the first batch
    uint64_t retried_steps = 0;      // asked again after a failure
    uint64_t servers = 0;            // addresses in use
    uint64_t open_slots = 0;         // held by the consumer now
    uint64_t hedged_steps = 0;       // asked of a second server: late
    uint64_t hedge_wins = 0;         // of these, the second was first
    uint64_t extra_bytes = 0;        // received and of no use
    // The window now and at the start, how often it has changed, and why the
    // last time: a clause. It never does where the options fix it.
    uint32_t window = 0;
    uint32_t first_window = 0;
    uint64_t window_changes = 0;
    std::string window_reason;
    // Copying what arrived into slots, and hashing it (verify_payload).
    double copy_seconds = 0;
    // Where time went, by server; those that are gone stay.
    std::vector<ServerTimes> by_server;
  };

  virtual ~HostLoader() = default;  // closes

  virtual const OpenResponse& plan() const = 0;
  // Batches asked for and not yet consumed: as many as there may be now.
  virtual uint32_t window() const = 0;

  // The next batch of the rank. OutOfRange: all epochs were delivered.
  // DeadlineExceeded: no batch within next_timeout, names the endpoint and
  // what it waited for, or "all N slots are held" when the caller holds them.
  // Unavailable: the same when no server can be reached. After these two the
  // loader goes on: Next() may be called again. Any other error is final and
  // is returned again.
  virtual absl::StatusOr<HostBatch> Next() = 0;

  // Position after the last batch that Next() returned; after the last step of
  // an epoch that is step 0 of the next one.
  virtual Position position() const = 0;

  // Goes on at `position`: what is under way is dropped, Next() returns that
  // batch next. Costs no Open and no time that grows with the data. Batches
  // that the caller holds stay valid, and their slots count as held. The last
  // epoch stays the one that options.start and options.epochs name. Ends a
  // final error, too: behind a sample that cannot be read the job may go on.
  // InvalidArgument: a step past the end of its epoch, or an epoch past the
  // last; nothing has changed then. Cancelled: closed.
  virtual absl::Status Seek(Position position) = 0;

  virtual Stats stats() const = 0;

  // Ends calls and joins threads. Idempotent.
  virtual void Close() = 0;
};

absl::StatusOr<std::unique_ptr<HostLoader>> OpenHostLoader(
    const HostLoaderOptions& options);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_HOST_LOADER_H_
