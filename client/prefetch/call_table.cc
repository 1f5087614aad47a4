#include "client/prefetch/call_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/logging.h"

namespace millrace::prefetch {

// Invariants between two events of the transport:
//
// - Every batch below low_ is whole. Batch low_ is not whole, unless low_ is
//   end_.
// - For a step of [low_, end_) that is not whole, Step::calls is the number of
//   entries of calls_ whose run contains the step. kInFlight: at least 1.
//   kWaiting: 0. Within an event the count is ahead of calls_ between Append()
//   or Request() and Start(), and between Remove() and Lose() or MarkWhole().
// - waiting_ is the number of steps of [low_, end_) that are kWaiting.
//
// The table has no lock, because only the transport's events use it, and they
// come one at a time.

void CallTable::Restart(const Sequence& sequence) {
  // A run holds numbers of the sequence that it was started for. A call that
  // outlives that sequence would deliver its batches under wrong numbers.
  MR_CHECK(calls_.empty()) << "calls of the old place are in flight";
  sequence_ = sequence;
  std::fill(steps_.begin(), steps_.end(), Step());
  low_ = 0;
  end_ = 0;
  waiting_ = 0;
}

void CallTable::Append(uint64_t count, absl::Time now) {
  for (uint64_t i = 0; i < count; ++i, ++end_) {
    // The place is free: RequestBudget limits the batches that are requested
    // and not consumed to the number of slots, which is the size of the ring.
    // A batch is consumed only when it is whole, so low_ is past the batch that
    // had this place before.
    at(end_) = {.state = State::kInFlight, .calls = 1, .requested = now};
  }
}

void CallTable::CutAt(uint64_t end) {
  MR_CHECK(incomplete(end)) << "the table is cut at a batch that is whole";
  for (uint64_t number = end; number < end_; ++number) {
    if (at(number).state == State::kWaiting) --waiting_;
  }
  // Calls whose run reaches past the new end stay in calls_. They do not owe
  // those steps any more, because incomplete() is false from end_ on. low_ is
  // at most `end`, because `end` is not whole.
  end_ = end;
}

CallTable::Run CallTable::FirstWaiting(uint64_t limit) const {
  Run run;
  // The run has one `avoid`, because the owner chooses one server for all of
  // its steps.
  for (uint64_t number = low_; number < end_ && waiting_ > 0; ++number) {
    const Step& step = at(number);
    if (run.count == 0) {
      if (step.state != State::kWaiting) continue;
      run = {number, 1};
      // A call contains steps of a single epoch.
      limit = step.alone ? 1 : std::min(limit, sequence_.LeftInEpoch(number));
    } else if (step.state == State::kWaiting && !step.alone &&
               step.avoid == at(run.first).avoid) {
      ++run.count;
    } else {
      break;
    }
    if (run.count == limit) break;
  }
  return run;
}

void CallTable::Request(Run run, absl::Time now) {
  for (uint64_t number = run.first; number < run.first + run.count; ++number) {
    Step& step = at(number);
    MR_CHECK(step.state != State::kWhole) << "a whole batch is requested again";
    // `requested` belongs to the oldest call in flight, so a further call for a
    // step in flight does not change it.
    if (step.state == State::kWaiting) {
      --waiting_;
      step.requested = now;
    }
    step.state = State::kInFlight;
    ++step.calls;
  }
}

void CallTable::MarkWhole(uint64_t number) {
  // The step was kInFlight, because the call that delivers it is in calls_ and
  // owes it. So waiting_ does not change.
  at(number).state = State::kWhole;
  // `calls` of the step is not changed. Other calls whose run contains the step
  // may continue with their other steps; incomplete() is false for this one, so
  // Lose() does not count it, and Append() resets the place.
  while (low_ < end_ && at(low_).state == State::kWhole) ++low_;
}

CallTable::Call* CallTable::Find(CallId id) {
  const auto it = calls_.find(id);
  return it == calls_.end() ? nullptr : &it->second;
}

CallId CallTable::Start(ServerId server, Run run, bool hedge, absl::Time now) {
  // Never reused, also not by Restart(): an id that the caller has kept over
  // the end of its call finds nothing.
  const CallId id = next_call_++;
  // The run is in one epoch, so one first step and a count describe it.
  const Position first = sequence_.At(run.first);
  Call& call = calls_[id];
  call.server = server;
  call.run = run;
  call.steps = {first.epoch, first.step, run.count};
  call.unsettled = run.count;
  call.hedge = hedge;
  call.requested = now;
  call.progress = now;
  return id;
}

void CallTable::NoteProgress(Call& call, absl::Time now) {
  call.progress = now;
  for (auto& [id, other] : calls_) {
    if (other.server == call.server && other.run.first > call.run.first) {
      other.behind = now;
    }
  }
}

CallTable::Call CallTable::Remove(CallId id) {
  // The steps still count this call in Step::calls. The caller either passes
  // the call to Lose(), or knows that the call owes no step that stays
  // incomplete: another call has delivered it, or all calls end (CancelAll()).
  return std::move(calls_.extract(id).mapped());
}

uint64_t CallTable::Lose(const Call& call) {
  uint64_t lost = 0;
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    // Batches that another call has delivered are not lost.
    if (!incomplete(number)) continue;
    Step& step = at(number);
    step.avoid = call.server;
    // At least 1 before: `call` is counted until here, and it was removed from
    // calls_ before.
    if (--step.calls == 0) {
      step.state = State::kWaiting;
      ++waiting_;
      ++lost;
      continue;
    }
    // `call` may have been started because another call is silent. It will not
    // deliver the step, so the other call may be retried once more.
    for (auto& [id, other] : calls_) {
      if (other.run.Contains(number)) other.retried = false;
    }
  }
  return lost;
}

std::optional<uint64_t> CallTable::FirstOwed(const Call& call) const {
  for (uint64_t i = 0; i < call.run.count; ++i) {
    if (incomplete(call.run.first + i)) return call.run.first + i;
  }
  return std::nullopt;
}

uint64_t CallTable::CountOwed(const Call& call) const {
  uint64_t owed = 0;
  for (uint64_t i = 0; i < call.run.count; ++i) {
    if (incomplete(call.run.first + i)) ++owed;
  }
  return owed;
}

void CallTable::RequestAlone(const Call& call) {
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (incomplete(number)) at(number).alone = true;
  }
}

bool CallTable::OwesBesides(const Call& call, uint64_t number) const {
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t other = call.run.first + i;
    if (other != number && incomplete(other)) return true;
  }
  return false;
}

bool CallTable::RequestedFromOthers(const Call& call) const {
  bool owes = false;
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (!incomplete(number)) continue;
    // `call` itself is one of them, also when it was just removed from calls_.
    if (at(number).calls <= 1) return false;
    owes = true;
  }
  return owes;
}

std::vector<CallId> CallTable::OtherCallsFor(uint64_t number,
                                             const Call& call) const {
  std::vector<CallId> others;
  // Compares addresses: `call` is the entry of calls_, not a copy of it.
  for (const auto& [id, other] : calls_) {
    if (&other != &call && other.run.Contains(number)) others.push_back(id);
  }
  return others;
}

uint32_t CallTable::Filling(uint64_t number) const {
  return static_cast<uint32_t>(
      std::count_if(calls_.begin(), calls_.end(), [number](const auto& entry) {
        const Call& call = entry.second;
        // A call that fills a slot has begun a batch, so number() is known.
        return call.batch.slot() != nullptr && call.number() == number;
      }));
}

uint32_t CallTable::SparesUsed() const {
  // The first slot of each batch is no spare: slots in use minus batches.
  uint32_t slots = 0;
  std::set<uint64_t> numbers;
  for (const auto& [id, call] : calls_) {
    if (call.batch.slot() == nullptr) continue;
    ++slots;
    numbers.insert(call.number());
  }
  return slots - static_cast<uint32_t>(numbers.size());
}

}  // namespace millrace::prefetch
