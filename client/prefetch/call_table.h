// CallTable records the outstanding requests: the calls in flight, and for
// every batch between the next one to deliver and the first one never
// requested, how many calls owe it, whether it waits to be requested again, and
// whether it is whole.
//
// It starts and cancels no call at a transport, chooses no server and owns no
// memory: the owner of the table takes the slots in Call::batch from a pool and
// puts them back.
//
// Batches are numbered as in Sequence. At most `capacity` batches are in the
// table, so each has a place in a ring. Several calls may be in flight for one
// step: the step is late, or the first server is silent.
//
// Pure bookkeeping: no thread, no clock. Not thread-safe.
//
//   const Run run = {table.end(), 4};
//   table.Append(run.count, now);
//   const CallId id = table.Start(server, run, false, now);
//   transport->StartCall(id, server, table.Find(id)->steps);
//   ...
//   retried += table.Lose(table.Remove(id));  // these steps wait

#ifndef MILLRACE_CLIENT_PREFETCH_CALL_TABLE_H_
#define MILLRACE_CLIENT_PREFETCH_CALL_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/prefetch/batch_assembly.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/transport.h"

namespace millrace::prefetch {

class CallTable {
 public:
  // Batches that follow one another, by number.
  struct Run {
    uint64_t first = 0;
    uint64_t count = 0;

    bool Contains(uint64_t number) const {
      return number >= first && number - first < count;
    }
    friend bool operator==(const Run&, const Run&) = default;
  };

  enum class State {
    // `calls` calls owe it, at least 1.
    kInFlight,
    // It must be requested again; no call owes it.
    kWaiting,
    // It is delivered. Also the state of a place without a step.
    kWhole,
  };

  struct Step {
    State state = State::kWhole;
    uint32_t calls = 0;    // calls in flight that owe it
    ServerId avoid = 0;    // the server that failed it last
    uint32_t damages = 0;  // of requests for it and answers to it
    // A call that owed it failed because of one of its steps, and it is not
    // known which: calls for this step contain no other one.
    bool alone = false;
    absl::Time requested;  // when the first of `calls` was started
  };

  // A request for `run` at one server.
  struct Call {
    ServerId server = 0;
    Run run;
    AskedSteps steps;        // the same by position
    uint64_t unsettled = 0;  // batches that it has not delivered yet
    bool hedge = false;      // started because another call is late
    absl::Time requested;
    absl::Time frame_at;  // of the last frame
    // Time of the last frame of an owed batch; before that, `requested`.
    absl::Time progress;
    // Time of the last frame of a call at the same server for earlier batches;
    // until then this call may have waited for its turn there.
    absl::Time behind = absl::InfinitePast();
    // Calls at other servers are in flight for all steps that it owes.
    bool retried = false;
    BatchAssembly batch;  // the batch whose frames are arriving

    // The time since which the server could have sent a frame of this call.
    absl::Time silent_since() const { return std::max(progress, behind); }
    // Whether a frame counts as progress. A server that has sent all batches of
    // the run and sends some of them again makes no progress.
    bool Owes() const { return unsettled > 0 || batch.wanted(); }
    // The number of `batch`, once one has begun.
    uint64_t number() const {
      return run.first + (batch.position().step - steps.first_step);
    }
  };
  using Calls = std::map<CallId, Call>;

  CallTable(uint32_t capacity, const Sequence& sequence)
      : sequence_(sequence), steps_(capacity) {}

  // Begins at the start of `sequence`, without outstanding steps. No call may
  // be in flight.
  void Restart(const Sequence& sequence);

  const Sequence& sequence() const { return sequence_; }

  // --- steps ---------------------------------------------------------------

  // Every batch below is whole. low() <= end() <= low() + capacity, so no two
  // steps of [low(), end()) share a place in the ring.
  uint64_t low() const { return low_; }
  // The first batch that was never requested.
  uint64_t end() const { return end_; }
  bool has_waiting() const { return waiting_ > 0; }
  // Every batch of [low(), end()) is whole.
  bool complete() const { return low_ == end_; }

  Step& at(uint64_t number) { return steps_[number % steps_.size()]; }
  const Step& at(uint64_t number) const {
    return steps_[number % steps_.size()];
  }
  bool incomplete(uint64_t number) const {
    return number >= low_ && number < end_ && at(number).state != State::kWhole;
  }

  // Adds `count` batches for one call, which the caller starts next.
  void Append(uint64_t count, absl::Time now);

  // The table ends before batch `end`, which is not whole: no call owes a batch
  // from there on, and none waits. Nothing may be appended until Restart().
  void CutAt(uint64_t end);

  // The first batches, at most `limit`, that wait to be requested again, avoid
  // the same server and are in one epoch; or one batch that is requested alone.
  // Count 0: none waits.
  Run FirstWaiting(uint64_t limit) const;

  // One more call, which the caller starts next, owes each batch of `run`.
  void Request(Run run, absl::Time now);

  void MarkWhole(uint64_t number);

  // --- calls ---------------------------------------------------------------

  const Calls& calls() const { return calls_; }
  Calls& calls() { return calls_; }
  // Null: the call is over.
  Call* Find(CallId id);

  // Records a call for `run`, which Append() or Request() has added and which
  // is in one epoch. Ids are never reused.
  CallId Start(ServerId server, Run run, bool hedge, absl::Time now);

  // A frame of an owed batch of `call` has arrived.
  void NoteProgress(Call& call, absl::Time now);

  // Removes a call that is over. Its steps keep their state.
  Call Remove(CallId id);

  // `call` will not deliver the steps that it owes. Those that no other call
  // owes wait to be requested again; returns their number.
  uint64_t Lose(const Call& call);

  // The first batch of its run that is not whole.
  std::optional<uint64_t> FirstOwed(const Call& call) const;

  // Number of batches of its run that are not whole.
  uint64_t CountOwed(const Call& call) const;

  // Whether a batch of its run other than `number` is not whole.
  bool OwesBesides(const Call& call, uint64_t number) const;

  // Whether `call` owes steps and other calls owe each of them, too.
  bool RequestedFromOthers(const Call& call) const;

  // The batches that `call` owes are requested alone from now on.
  void RequestAlone(const Call& call);

  // The calls besides `call` whose run contains this batch.
  std::vector<CallId> OtherCallsFor(uint64_t number, const Call& call) const;

  // Number of calls that fill a slot with this batch.
  uint32_t Filling(uint64_t number) const;

  // Number of slots that are filled with a batch that another slot has, too.
  uint32_t SparesUsed() const;

 private:
  Sequence sequence_;
  // A ring by number. Entries outside of [low_, end_) have no meaning.
  std::vector<Step> steps_;
  uint64_t low_ = 0;
  uint64_t end_ = 0;
  // Number of steps in [low_, end_) that are kWaiting.
  uint64_t waiting_ = 0;
  Calls calls_;
  CallId next_call_ = 1;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_CALL_TABLE_H_
