// SampleBuffers is the memory of samples that were read ahead and are not yet
// used. It is bounded in bytes: a thread that reads waits for room until
// earlier samples have been used.
//
// Plans share the room evenly: while several read ahead (Enter()), each has an
// equal part of it, so neither the size of one plan's samples nor its storage
// stops the reads of another plan.
//
// Why no thread waits for ever: worker threads never wait for read threads, and
// return ready samples even if their batch is cancelled. So while any sample is
// Ready(), room will become free. While no sample is ready, the thread with the
// oldest Turn does not wait: without room its sample is given up, and the
// worker thread reads the sample itself. The same holds within a plan for the
// room of its part. Only a sample that is larger than the part of its plan, and
// beside which the plan holds nothing, may exceed the part.
//
// Thread-safe. Owns the memory, also of samples that are handed out, and uses
// it again. Between Copy() and Give() a sample belongs to one thread at a time;
// handing it from a reader to a worker needs a happens-before edge of the
// caller's.
//
//   SampleBuffers::Turn turn(buffers, account);  // before it is read
//   FetchedSample* sample = turn.Copy(read);     // waits for room
//   buffers.Ready({&sample, 1});                 // it can be worked on
//   sample->Visit(visit);
//   buffers.Give(sample);

#ifndef MILLRACE_SERVER_PIPELINE_READING_SAMPLE_BUFFERS_H_
#define MILLRACE_SERVER_PIPELINE_READING_SAMPLE_BUFFERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "common/mutex.h"
#include "server/pipeline/threads/thread_tally.h"
#include "server/storage/record_source.h"

namespace millrace::pipeline {

// What one plan holds of SampleBuffers, and how large its samples are. Belongs
// to one SampleBuffers, whose mutex guards all fields. Must outlive the turns
// and samples of the plan.
class ReadAccount {
 private:
  friend class SampleBuffers;
  uint64_t users_ = 0;  // between Enter() and Leave()
  // As the fields of SampleBuffers, for this plan.
  uint64_t held_ = 0;
  uint64_t ready_ = 0;
  std::vector<uint64_t> turns_;
  // Bytes of a large sample among recent ones: rises at once, falls by an
  // eighth a sample. 0: none has come.
  uint64_t recent_ = 0;
  // The last scan of SampleBuffers::WakeNext() that met a waiter of this plan.
  uint64_t scan_ = 0;
};

// What one RecordReader::Read() gave.
class FetchedSample {
 public:
  // As RecordReader::Read() of that sample; once.
  absl::Status Visit(
      absl::FunctionRef<absl::Status(const storage::EncodedSample&)> visit) {
    if (!status_.ok()) return std::move(status_);
    return visit({.fields = fields_, .shard = shard_, .row = row_});
  }

 private:
  friend class SampleBuffers;
  AlignedBuffer bytes_;
  std::vector<absl::Span<const uint8_t>> fields_;
  int32_t shard_ = 0;
  int64_t row_ = 0;
  // Moved, never copied: the reference count of a Status is changed in a
  // library that ThreadSanitizer does not see into.
  absl::Status status_;
  // What the sample counts for in held_, or in idle_ while it is idle. Written
  // under the mutex of the SampleBuffers, as is ready_.
  uint64_t charged_ = 0;
  // Counted in SampleBuffers::ready_, too.
  bool ready_ = false;
  // Counted in SampleBuffers::over_, too.
  bool over_ = false;
  // The plan's, from Take() to Give().
  ReadAccount* account_ = nullptr;
};

class SampleBuffers {
 public:
  // Half of the bytes for samples that are held, half for memory that is kept
  // for the next ones.
  explicit SampleBuffers(uint64_t bytes) : half_(bytes / 2) {}
  SampleBuffers(const SampleBuffers&) = delete;
  SampleBuffers& operator=(const SampleBuffers&) = delete;

  // From Enter() to Leave() the plan has a part of the room. Calls are counted.
  void Enter(ReadAccount& account);
  void Leave(ReadAccount& account);

  // A place in the order of reads: turns are numbered as they begin. Belongs to
  // one thread, which holds one at a time.
  class Turn {
   public:
    Turn(SampleBuffers& buffers, ReadAccount& account);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // False: a sample as large as recent ones of the plan would be given up
    // now, so reading it is a waste.
    bool MayFindRoom() const;
    // Null: the sample is given up, or the system has no memory.
    FetchedSample* Copy(const storage::EncodedSample& sample);
    // The same, but null also where it would have to wait for room: for sources
    // whose visits must not wait.
    FetchedSample* TryCopy(const storage::EncodedSample& sample);
    // Waits for the room that TryCopy() has not found; a TryCopy() of at most
    // as many bytes then succeeds. False: room was not what TryCopy() lacked,
    // or the sample is given up.
    bool AwaitRoom();
    // Waits for room before the sample is read, for one of at most `bytes` in
    // `fields` fields; a TryCopy() of it then succeeds. False: the sample is
    // given up, or larger than all samples together may be.
    bool AwaitRoomFor(uint64_t bytes, size_t fields);
    // A sample that stands for a failed read: Visit() returns `status`. Waits
    // for room as Copy() does. Null: it is given up.
    FetchedSample* Fail(absl::Status status);

    // Time that it has waited for room, which is no time of reading.
    std::chrono::nanoseconds waited() const { return waited_; }

   private:
    friend class SampleBuffers;
    // Copies into a sample that Take() gave. Null: the system has no memory;
    // the sample is given back.
    FetchedSample* Fill(FetchedSample* copy,
                        const storage::EncodedSample& sample, uint64_t bytes);
    SampleBuffers& buffers_;
    ReadAccount& account_;
    uint64_t number_;
    // Bytes that the last TryCopy() has found no room for; 0: it has found
    // some.
    uint64_t wanted_ = 0;
    // From AwaitRoom() to the next TryCopy(): a sample with room for wanted_
    // bytes.
    FetchedSample* reserved_ = nullptr;
    // Bytes that the turn waits for while it is in waiters_.
    uint64_t awaited_ = 0;
    // Signalled under the mutex while this turn is in waiters_.
    CondVar room_;
    std::chrono::nanoseconds waited_{0};
  };

  // The samples of a task that lacks none any more: they will be used and given
  // back without a further read. Null entries are ignored.
  void Ready(absl::Span<FetchedSample* const> samples);

  // Takes the sample back, ready or not. Null is ignored.
  void Give(FetchedSample* sample);

  // Upper bound of the samples that a task of the plan should wait for
  // together, at least 1: as many as fit into a quarter of the plan's part of
  // the room if they are as large as recent ones of the plan.
  uint64_t MaxTaskSamples(const ReadAccount& account) const;

  // Thread-seconds that turns have waited for room, so far.
  double WaitedSeconds();

  uint64_t held_bytes() const;
  uint64_t ready_bytes() const;  // of these
  uint64_t idle_bytes() const;

 private:
  // Bytes of samples that the plan may hold; of a plan that has not entered,
  // what it will be then.
  uint64_t PartOf(const ReadAccount& account) const MR_REQUIRES(mu_);
  // Whether `bytes` more exceed the part of the plan. Never beside nothing.
  bool ExceedsPart(const ReadAccount& account, uint64_t bytes) const
      MR_REQUIRES(mu_);
  // Whether `bytes` more of the plan exceed its part or the bound of all plans.
  bool Exceeds(const ReadAccount& account, uint64_t bytes) const
      MR_REQUIRES(mu_);
  // Whether the turn is to wait where `bytes` exceed: room is sure to come, for
  // ready samples will be given back, or an older turn has to end first.
  bool RoomComes(const Turn& turn, uint64_t bytes) const MR_REQUIRES(mu_);
  bool MustWait(const Turn& turn, uint64_t bytes) const MR_REQUIRES(mu_) {
    return Exceeds(turn.account_, bytes) && RoomComes(turn, bytes);
  }
  // A sample that is charged for `bytes`. Null: there is no room, and `wait` is
  // false or no room is sure to come.
  FetchedSample* Take(Turn& turn, uint64_t bytes, bool wait = true);
  // Wakes the first waiter that can go on, which takes its room and then wakes
  // the next one. All at once would cost more than their reads: nearly all
  // would find no room. Waiters of one plan go on in the order of their turns,
  // and so do those that wait to exceed their parts: a large sample is not
  // overtaken for ever.
  //
  // To be called whenever a waiter may have become able to go on: room came
  // back, ready_ fell, a turn ended, the number of plans changed.
  void WakeNext() MR_REQUIRES(mu_);

  const uint64_t half_;
  mutable Mutex mu_;
  ThreadTally waiting_ MR_GUARDED_BY(mu_);
  // Turns that wait for room, by number.
  std::map<uint64_t, Turn*> waiters_ MR_GUARDED_BY(mu_);
  // Plans that have entered.
  uint64_t plans_ MR_GUARDED_BY(mu_) = 0;
  // Bytes charged for samples from Take() to Give(). Without over_ at most
  // half_.
  uint64_t held_ MR_GUARDED_BY(mu_) = 0;
  // Bytes of held_ for samples that were larger than the part of their plan. At
  // most half_, or those of a single sample; at most one sample of a plan.
  uint64_t over_ MR_GUARDED_BY(mu_) = 0;
  // Bytes of held_ that are Ready(): above 0, room is sure to come.
  uint64_t ready_ MR_GUARDED_BY(mu_) = 0;
  // Bytes of idle_samples_; at most half_, or those of a single sample. 0 while
  // held_ is above both halves; otherwise the two are at most both halves.
  uint64_t idle_ MR_GUARDED_BY(mu_) = 0;
  uint64_t scans_ MR_GUARDED_BY(mu_) = 0;  // of WakeNext()
  uint64_t next_turn_ MR_GUARDED_BY(mu_) = 0;
  // Numbers of the turns that live, ascending: the first is the oldest read,
  // which waits for ready samples alone.
  std::vector<uint64_t> turns_ MR_GUARDED_BY(mu_);
  // A stack: the sample that came back last has the warmest memory.
  std::vector<std::unique_ptr<FetchedSample>> idle_samples_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_READING_SAMPLE_BUFFERS_H_
