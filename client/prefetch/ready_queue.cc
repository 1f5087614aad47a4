#include "client/prefetch/ready_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/duration_text.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace millrace::prefetch {
namespace {

// Weight of the newest time in the running mean of the time from batch to
// batch: about the last five count. A choice.
constexpr double kConsumerGain = 0.2;

// Upper bound of one wait of Next(), so that times are counted and deadlines
// are seen even if no signal comes. A choice: too rare to cost anything.
constexpr absl::Duration kMaxWait = absl::Milliseconds(200);

}  // namespace

ReadyQueue::ReadyQueue(const Options& options, const Sequence& sequence,
                       std::shared_ptr<SlotPool> pool,
                       std::function<absl::Time()> now,
                       std::function<void(absl::Duration)> wait,
                       std::function<void()> wake)
    : options_(options),
      pool_(std::move(pool)),
      now_(std::move(now)),
      wait_(std::move(wait)),
      wake_(std::move(wake)),
      sequence_(sequence),
      ready_(options.slots) {}

// --- the consumer and any thread --------------------------------------------

absl::StatusOr<HostBatch> ReadyQueue::Next() {
  // Never nullopt: the patience has no end.
  MR_ASSIGN_OR_RETURN(std::optional<HostBatch> batch,
                      NextWithin(absl::InfiniteDuration()));
  return *std::move(batch);
}

absl::StatusOr<std::optional<HostBatch>> ReadyQueue::NextWithin(
    absl::Duration patience) {
  MutexLock lock(mu_);
  min_in_hand_ = std::min(min_in_hand_,
                          whole_below_ - std::min(whole_below_, next_.load()));
  const auto there = AwaitBatch(lock, patience);
  // The next call continues this wait.
  if (there.ok() && !there->has_value()) return std::nullopt;
  // A wait that ends with an error counts as well.
  const Waiting waited = std::exchange(waiting_, {});
  stats_.wait_seconds += waited.seconds;
  stats_.no_answer_seconds += waited.no_answer_seconds;
  if (!there.ok()) return there.status();
  return TakeNext(waited, **there);
}

HostBatch ReadyQueue::TakeNext(const Waiting& waited, absl::Time now) {
  const uint64_t number = next_.load();
  // AwaitBatch() has found this entry full under the lock, which is held since.
  Ready& ready = ready_[number % options_.slots];
  if (last_return_ != absl::InfinitePast()) {
    consumer_step_ += kConsumerGain * (now - last_return_ - consumer_step_);
  }
  last_return_ = now;
  // Time in which no server answered does not count for the server that
  // delivers the batch in the end.
  tally_.CountWait(ready.server, waited.seconds - waited.no_answer_seconds);
  if (stats_.batches++ == 0) {
    stats_.first_batch_seconds =
        absl::ToDoubleSeconds(now - options_.opened_at);
  }
  HostBatch batch;
  static_cast<BatchInfo&>(batch) =
      MakeBatchInfo(ready.batch.header, sequence_.At(number), generation_);
  batch.header = std::move(ready.batch.header);
  if (ready.batch.shared != nullptr) {
    batch.payload = {static_cast<uint8_t*>(ready.batch.shared.get()),
                     batch.header.payload_bytes()};
    batch.lease = pool_->LeaseShared(std::move(ready.batch.shared));
  } else {
    batch.payload = {ready.batch.slot, batch.header.payload_bytes()};
    batch.lease = pool_->Lease(ready.batch.slot);
  }
  ready.full = false;
  stats_.samples += batch.local_valid;
  stats_.payload_bytes += batch.payload.size();
  // After the lease: a thread that reads next_ and then held() never finds more
  // free slots than there are.
  next_.store(number + 1);
  return batch;
}

absl::StatusOr<std::optional<absl::Time>> ReadyQueue::AwaitBatch(
    MutexLock& lock, absl::Duration patience) {
  absl::Time now = now_();
  // Earlier calls may have waited for the same batch.
  const absl::Time timeout = now + (options_.next_timeout - waiting_.time);
  const absl::Time give_up = now + patience;
  // next_ is read again after each wait: a Seek() may have changed number and
  // generation.
  while (closed_ || !ready_[next_.load() % options_.slots].full) {
    const uint64_t number = next_.load();
    if (closed_) return absl::CancelledError("the loader was closed");
    if (!error_.ok() && number >= error_at_) return error_;
    if (number >= sequence_.total()) {
      return absl::OutOfRangeError(
          absl::StrCat("all batches up to ", PositionText(sequence_.At(number)),
                       " were delivered"));
    }
    if (now >= timeout) return TimeoutError(waiting_.time);
    if (now >= give_up) return std::nullopt;
    AwaitChange(lock, now, std::min(timeout, give_up));
    // Into waiting_ at once, so that stats() of another thread sees the wait
    // grow.
    const absl::Time before = std::exchange(now, now_());
    const double seconds = absl::ToDoubleSeconds(now - before);
    waiting_.time += now - before;
    waiting_.seconds += seconds;
    if (nobody_answers_) waiting_.no_answer_seconds += seconds;
  }
  return now;
}

void ReadyQueue::AwaitChange(MutexLock& lock, absl::Time now,
                             absl::Time timeout) {
  if (now >= late_at_) {
    // Once for each Arrival: the next one sets it again.
    late_at_ = absl::InfiniteFuture();
    wake_();
  }
  const absl::Duration longest =
      std::min({kMaxWait, timeout - now, late_at_ - now});
  if (wait_ != nullptr) {
    // Time is simulated: the wait itself makes the transport deliver, on this
    // thread, which takes the lock.
    mu_.Unlock();
    wait_(longest);
    mu_.Lock();
    return;
  }
  changed_.WaitUntil(lock, SteadyDeadline(longest));
}

absl::Status ReadyQueue::TimeoutError(absl::Duration waited) const {
  const std::string what =
      absl::StrCat("no batch within ", DurationText(waited));
  if (pool_->offered() != nullptr) {
    if (pool_->offered()->count() == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(what,
                       ": the program has offered no memory for batches; offer "
                       "memory before each batch"));
    }
  } else if (pool_->held() == options_.slots) {
    // The consumer holds every slot: no batch can come until it releases one.
    return absl::DeadlineExceededError(
        absl::StrCat(what, ": all ", options_.slots,
                     " slots are held by the caller; release batches that are "
                     "not needed any "
                     "more, or open the loader with a larger window"));
  }
  const std::string detail = absl::StrCat(
      what, ": waiting for ", PositionText(sequence_.At(next_.load())),
      " from endpoint ", options_.endpoint, " (", servers_text_, ")");
  if (usable() == 0) {
    return absl::UnavailableError(absl::StrCat(
        detail, "; check that the servers run and can be reached"));
  }
  const std::string status =
      absl::StrCat("`millrace status --endpoint=", options_.endpoint, "`");
  // A request that was just repeated is not late yet.
  if (nobody_answers_ ||
      waiting_.no_answer_seconds > absl::ToDoubleSeconds(waited) / 2) {
    return absl::DeadlineExceededError(absl::StrCat(
        detail, "; the connected servers have sent nothing for ",
        DurationText(absl::Seconds(waiting_.no_answer_seconds)),
        " or longer: check that they are not stopped, their logs, and ",
        status));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      detail, "; the connected servers did not send this batch: see ", status,
      " and the logs of the servers"));
}

Position ReadyQueue::position() const {
  MutexLock lock(mu_);
  return sequence_.At(next_.load());
}

absl::Status ReadyQueue::Seek(const Sequence& sequence) {
  MutexLock lock(mu_);
  if (closed_) return absl::CancelledError("the loader was closed");
  // Slots only: shared memory is released with its entry. Batches that are
  // leased to the consumer stay valid.
  for (Ready& ready : ready_) {
    if (ready.full && ready.batch.slot != nullptr) {
      pool_->PutBack(ready.batch.slot);
    }
    ready = {};
  }
  sequence_ = sequence;
  next_.store(0);
  whole_below_ = 0;
  ++generation_;
  // An error of the old position says nothing about the new one.
  error_ = absl::OkStatus();
  late_at_ = absl::InfiniteFuture();
  last_return_ = absl::InfinitePast();
  // Set last: the transport's thread that sees it takes the lock and finds the
  // new sequence. Until then, Deliver() and FailAt() drop their arguments, so
  // nothing of the old generation gets in.
  seek_pending_.store(true);
  changed_.NotifyAll();
  return absl::OkStatus();
}

void ReadyQueue::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

HostLoader::Stats ReadyQueue::stats() const {
  MutexLock lock(mu_);
  HostLoader::Stats stats = stats_;
  stats.wait_seconds += waiting_.seconds;
  stats.no_answer_seconds += waiting_.no_answer_seconds;
  stats.by_server = tally_.times();
  stats.servers = usable();
  return stats;
}

// --- the transport's thread -------------------------------------------------

Sequence ReadyQueue::TakeSeek() {
  MutexLock lock(mu_);
  // Under the lock, together with the sequence: a Seek() after this sets it
  // again.
  seek_pending_.store(false);
  return sequence_;
}

void ReadyQueue::Deliver(uint64_t number, WholeBatch batch,
                         const Arrival& arrival) {
  MutexLock lock(mu_);
  // The batch belongs to the old generation.
  if (seek_pending_.load()) {
    if (batch.slot != nullptr) pool_->PutBack(batch.slot);
    return;
  }
  Ready& ready = ready_[number % options_.slots];
  // The place is free: `number` is less than next_ + slots, and delivered once.
  MR_CHECK(!ready.full) << "a batch would be replaced before it is consumed";
  ready.full = true;
  ready.server = tally_.Count(arrival.server, batch.header, arrival.shared,
                              arrival.begun_at, now_());
  ready.batch = std::move(batch);
  stats_.copy_seconds = arrival.copy_seconds;
  whole_below_ = arrival.whole_below;
  late_at_ = arrival.late_at;
  // The consumer waits for this batch only.
  if (number == next_.load()) changed_.NotifyAll();
}

void ReadyQueue::FailAt(uint64_t number, absl::Status error) {
  MutexLock lock(mu_);
  // An error of the old position says nothing about the new one.
  if (seek_pending_.load()) return;
  if (!error_.ok() && error_at_ <= number) return;
  error_ = std::move(error);
  error_at_ = number;
  changed_.NotifyAll();
}

void ReadyQueue::DescribeServers(std::string text, bool nobody_answers) {
  MutexLock lock(mu_);
  nobody_answers_ = nobody_answers;
  if (nobody_answers) stats_.no_answer = text;
  servers_text_ = std::move(text);
}

absl::Duration ReadyQueue::consumer_step() const {
  MutexLock lock(mu_);
  return consumer_step_;
}

void ReadyQueue::Look(absl::FunctionRef<bool(const Consumption&)> look) {
  MutexLock lock(mu_);
  const Consumption consumption = {.generation = generation_,
                                   .batches = stats_.batches,
                                   .wait_seconds = stats_.wait_seconds,
                                   .last_return = last_return_,
                                   .min_in_hand = min_in_hand_,
                                   .by_server = &tally_.times()};
  if (look(consumption)) min_in_hand_ = options_.slots;
}

void ReadyQueue::CountWindowChange(uint64_t changes,
                                   const std::string& reason) {
  MutexLock lock(mu_);
  stats_.window_changes = changes;
  stats_.window_reason = reason;
}

}  // namespace millrace::prefetch
