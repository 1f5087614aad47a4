// SampleBuffers is the memory of samples that were read ahead and are not yet
// worked on. It is bounded in bytes: who reads waits for room until samples
// before it have been used. Only while there is nothing that could be used (no
// sample is Ready()) the one that was begun first does not wait, and may lie
// above the bound: what that takes are the samples of tasks that still lack
// one, a task or so for each run.
//
// Who uses samples must never wait for those who read, and must give back ready
// ones whatever becomes of their batch.
//
// Thread-safe. Owns the memory, also of samples that are handed out; it is used
// again. A sample belongs to who has it.
//
//   SampleBuffers::Turn turn(buffers);        // before it is read
//   FetchedSample* sample = turn.Copy(read);  // waits for room
//   buffers.Ready({&sample, 1});              // it can be worked on
//   sample->Visit(visit);
//   buffers.Give(sample);

#ifndef MILLRACE_SERVER_PIPELINE_READING_SAMPLE_BUFFERS_H_
#define MILLRACE_SERVER_PIPELINE_READING_SAMPLE_BUFFERS_H_

#include <chrono>
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

namespace millrace {

// What one RecordReader::Read() gave.
class FetchedSample {
 public:
  // As RecordReader::Read() of that sample; once.
  absl::Status Visit(
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) {
    if (!status_.ok()) return std::move(status_);
    return visit({.fields = fields_, .shard = shard_, .row = row_});
  }

 private:
  friend class SampleBuffers;
  AlignedBuffer bytes_;
  std::vector<absl::Span<const uint8_t>> fields_;
  int32_t shard_ = 0;
  int64_t row_ = 0;
  // Moved on, never shared: the count of a status lies in a library that
  // ThreadSanitizer cannot see.
  absl::Status status_;
  uint64_t charged_ = 0;
  bool ready_ = false;
};

class SampleBuffers {
 public:
  // Half of the bytes for samples that are held, half for memory that is kept
  // for the next ones.
  explicit SampleBuffers(uint64_t bytes) : half_(bytes / 2) {}
  SampleBuffers(const SampleBuffers&) = delete;
  SampleBuffers& operator=(const SampleBuffers&) = delete;

  // A place in the order of those who read. Belongs to one thread.
  class Turn {
   public:
    explicit Turn(SampleBuffers& buffers);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Null: the system has no memory.
    FetchedSample* Copy(const EncodedSample& sample);
    // The same, but null also where it would have to wait for room.
    FetchedSample* TryCopy(const EncodedSample& sample);
    // Waits for the room that TryCopy() has not found; now it finds it. False:
    // that was not what it lacked.
    bool AwaitRoom();
    // The sample whose reading has failed.
    FetchedSample* Fail(absl::Status status);

    // That it has waited for room, which is no time of reading.
    std::chrono::nanoseconds waited() const { return waited_; }

   private:
    friend class SampleBuffers;
    // Of a sample that is taken.
    FetchedSample* Fill(FetchedSample* copy, const EncodedSample& sample,
                        uint64_t bytes);
    SampleBuffers& buffers_;
    uint64_t number_;
    uint64_t wanted_ = 0;                // that TryCopy() has not found
    FetchedSample* reserved_ = nullptr;  // with room for them
    CondVar room_;
    std::chrono::nanoseconds waited_{0};
  };

  // Nobody needs to read more before these can be used, and given back; null
  // is nothing.
  void Ready(absl::Span<FetchedSample* const> samples);

  // Takes the sample back; null is nothing.
  void Give(FetchedSample* sample);

  // Thread-seconds that were waited for room, so far.
  double WaitedSeconds();

  uint64_t held_bytes() const;
  uint64_t ready_bytes() const;  // of these
  uint64_t idle_bytes() const;

 private:
  // Null: there is no room, and `wait` is false.
  FetchedSample* Take(Turn& turn, uint64_t bytes, bool wait = true);
  // Of those who wait for room one after the other looks whether there is any:
  // who gets it wakes the next. All at once would cost more than their reads.
  void WakeFirst() MR_REQUIRES(mu_);

  const uint64_t half_;
  mutable Mutex mu_;
  ThreadTally waiting_ MR_GUARDED_BY(mu_);
  // Who waits for room, by number.
  std::map<uint64_t, Turn*> waiters_ MR_GUARDED_BY(mu_);
  uint64_t held_ MR_GUARDED_BY(mu_) = 0;
  uint64_t ready_ MR_GUARDED_BY(mu_) = 0;  // of held_
  uint64_t idle_ MR_GUARDED_BY(mu_) = 0;
  uint64_t next_turn_ MR_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> turns_ MR_GUARDED_BY(mu_);  // under way, ascending
  std::vector<std::unique_ptr<FetchedSample>> idle_samples_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_READING_SAMPLE_BUFFERS_H_
