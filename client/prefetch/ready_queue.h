// ReadyQueue is where the two thread domains of a loader meet: the transport's
// thread delivers whole batches in any order, and the consumer takes them in
// the order of the Sequence. It holds the loader's position, the error that
// ends the sequence, and the consumption.
//
// It requests no batch and knows no calls. Slots belong to the pool: the queue
// leases them to the consumer, and puts back those that a Seek() drops.
//
// Threads: one consumer calls Next(). Any thread may call Seek(), Close() and
// the const methods. Methods under "the transport's thread" are called from its
// events only, one at a time.
//
// Generations: Seek() drops all batches and begins a new generation at number
// 0, while calls for the old position are still in flight. Until the
// transport's thread has seen the Seek() (TakeSeek()), the batches that it
// delivers belong to the old generation and are dropped. So a number in the
// queue always means a batch of the current Sequence.
//
//   if (queue.seek_pending()) { CancelAll(); table.Restart(queue.TakeSeek()); }
//   queue.Deliver(number, std::move(batch), arrival);       // transport
//   MR_ASSIGN_OR_RETURN(HostBatch batch, queue.Next());     // consumer

#ifndef MILLRACE_CLIENT_PREFETCH_READY_QUEUE_H_
#define MILLRACE_CLIENT_PREFETCH_READY_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/batch_assembly.h"
#include "client/prefetch/consumption.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/server_tally.h"
#include "client/prefetch/slot_pool.h"
#include "common/mutex.h"

namespace millrace::prefetch {

class ReadyQueue {
 public:
  struct Options {
    std::string endpoint;  // for errors
    // Batches in the queue and with the consumer together; at least 1. Their
    // slots come from the pool, which may have more.
    uint32_t slots = 1;
    // Max time that Next() waits for a batch.
    absl::Duration next_timeout = absl::Minutes(5);
    // When the loader began to open, by the clock; for Stats.
    absl::Time opened_at;
  };

  // `now` is the clock. `wait` replaces waiting where time is simulated, or is
  // null (NewPrefetchLoader). `wake` makes the transport tick soon; it is
  // called with a lock held, and must not call this object.
  ReadyQueue(const Options& options, const Sequence& sequence,
             std::shared_ptr<SlotPool> pool, std::function<absl::Time()> now,
             std::function<void(absl::Duration)> wait,
             std::function<void()> wake);

  // --- the consumer and any thread -----------------------------------------

  // As in HostLoader.
  absl::StatusOr<HostBatch> Next();
  absl::StatusOr<std::optional<HostBatch>> NextWithin(absl::Duration patience);
  Position position() const;

  // Continues at the start of `sequence`. Cancelled: closed.
  absl::Status Seek(const Sequence& sequence);

  // Next() returns Cancelled from now on. Idempotent.
  void Close();

  // Number of the batch that Next() returns next.
  uint64_t next() const { return next_.load(); }

  // The parts of HostLoader::Stats that concern the consumer, the servers and
  // the reason of the window. The rest is 0.
  HostLoader::Stats stats() const;

  // --- the transport's thread ----------------------------------------------

  // Seek() was called, and TakeSeek() was not called since.
  bool seek_pending() const { return seek_pending_.load(); }
  // The sequence to deliver from now on.
  Sequence TakeSeek();

  // How a batch arrived, and which batches are missing.
  struct Arrival {
    std::string server;        // its address
    bool shared = false;       // in memory that the server shares
    absl::Time begun_at;       // its first frame came
    double copy_seconds = 0;   // for all batches until now
    uint64_t whole_below = 0;  // every batch below is whole
    // When the first batch that is not whole becomes late: if the consumer
    // waits then, it calls `wake`.
    absl::Time late_at = absl::InfiniteFuture();
  };

  // Takes a whole batch. Each number may be delivered once, and only less than
  // `slots` ahead of next(). Dropped while a Seek() is pending.
  void Deliver(uint64_t number, WholeBatch batch, const Arrival& arrival);

  // Next() returns `error` in place of batch `number` and all later ones, until
  // a Seek(). Of several errors, that of the lowest number counts; of two for
  // one number, the first. `number` is not delivered. Dropped while a Seek() is
  // pending.
  void FailAt(uint64_t number, absl::Status error);

  // Number of servers that can get a request now. With 0, a timeout of Next()
  // is Unavailable.
  void SetUsable(uint32_t servers) { usable_.store(servers); }
  uint32_t usable() const { return usable_.load(); }

  // State of each server, for errors. `nobody_answers`: no server is usable, or
  // all usable servers are silent.
  void DescribeServers(std::string text, bool nobody_answers);

  // Time from one batch of the consumer to the next, waits included: a running
  // mean.
  absl::Duration consumer_step() const;

  // Calls `look` under the lock. If it returns true, min_in_hand starts again.
  void Look(absl::FunctionRef<bool(const Consumption&)> look);

  void CountWindowChange(uint64_t changes, const std::string& reason);

 private:
  struct Ready {
    bool full = false;
    WholeBatch batch;
    size_t server = 0;  // in tally_
  };
  // The wait for the next batch, not in stats_ yet. It lasts over several calls
  // of NextWithin() that return nullopt; 0: the consumer does not wait.
  struct Waiting {
    absl::Duration time;
    double seconds = 0;
    double no_answer_seconds = 0;
  };

  // Waits for the next batch and returns the time when it was there; nullopt:
  // it was not there within `patience`. Counts in waiting_.
  absl::StatusOr<std::optional<absl::Time>> AwaitBatch(MutexLock& lock,
                                                       absl::Duration patience)
      MR_REQUIRES(mu_);
  // Takes the next batch, which is there at `now`, for the consumer.
  HostBatch TakeNext(const Waiting& waited, absl::Time now) MR_REQUIRES(mu_);
  // Waits for a change, at most 200 ms or until `timeout`. Wakes the transport
  // when the step that the consumer waits for becomes late: an event of the
  // transport's own may be 100 ms away.
  void AwaitChange(MutexLock& lock, absl::Time now, absl::Time timeout)
      MR_REQUIRES(mu_);
  absl::Status TimeoutError(absl::Duration waited) const MR_REQUIRES(mu_);

  const Options options_;
  const std::shared_ptr<SlotPool> pool_;
  const std::function<absl::Time()> now_;
  const std::function<void(absl::Duration)> wait_;  // null: real time
  const std::function<void()> wake_;

  // These are atomic so that any thread may read them without the lock.
  //
  // next_ counts the batches that Next() returned since the last Seek(); it is
  // written under mu_ only. Next() leases a slot before it counts the batch
  // here, so a thread that reads next_ and then the pool's held() never finds
  // more free slots than there are.
  std::atomic<uint64_t> next_{0};
  // True from Seek() to TakeSeek(); written under mu_ only. While it is true,
  // no entry of ready_ is full.
  std::atomic<bool> seek_pending_{false};
  // Written by the transport's thread.
  std::atomic<uint32_t> usable_{0};

  // Taken before the locks of the pool and before those of `wake`. Not held
  // while Next() waits, so everything below may have changed after a wait.
  mutable Mutex mu_;
  // Signalled after the batch `next_`, an error, a Seek() or a Close().
  CondVar changed_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  absl::Status error_ MR_GUARDED_BY(mu_);
  uint64_t error_at_ MR_GUARDED_BY(mu_) = 0;  // of `error_`
  Sequence sequence_ MR_GUARDED_BY(mu_);
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
  // A ring by number. The full entries have numbers of the current generation
  // in [next_, next_ + slots), so no two of them share a place.
  std::vector<Ready> ready_ MR_GUARDED_BY(mu_);
  // From the last Arrival. The Next() that has called `wake` for it sets it to
  // InfiniteFuture: one call is enough.
  absl::Time late_at_ MR_GUARDED_BY(mu_) = absl::InfiniteFuture();
  // A running mean over the batches of all generations.
  absl::Duration consumer_step_ MR_GUARDED_BY(mu_);
  // When the consumer got the last batch; InfinitePast: none since a Seek().
  absl::Time last_return_ MR_GUARDED_BY(mu_) = absl::InfinitePast();
  // All batches below whole_below_ are whole, so Next() finds whole_below_ less
  // next_ of them in hand; min_in_hand_ is the minimum of that since Look()
  // last returned true.
  uint64_t whole_below_ MR_GUARDED_BY(mu_) = 0;
  uint64_t min_in_hand_ MR_GUARDED_BY(mu_) = 0;
  std::string servers_text_ MR_GUARDED_BY(mu_);
  bool nobody_answers_ MR_GUARDED_BY(mu_) = false;
  // stats_ holds finished waits; a wait that lasts is in waiting_ until it ends
  // with a batch or an error, and stats() adds the two. stats_.by_server stays
  // empty: tally_ has it.
  Waiting waiting_ MR_GUARDED_BY(mu_);
  ServerTally tally_ MR_GUARDED_BY(mu_);
  HostLoader::Stats stats_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_READY_QUEUE_H_
