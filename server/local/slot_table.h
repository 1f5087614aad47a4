// SlotTable knows the state of each slot of memory that a server shares with
// one client: idle, being filled, or lent to the client until the client
// returns it. It holds no memory and sends nothing.
//
//   idle --Take--> filling --Lend--> lent --Release/EndCall/TakeBack--> idle
//                     \--Return--> idle
//
// Slot numbers are never reused, and every lending has its own generation, so
// that an answer to an earlier lending is recognised. Messages of the client
// are foreign input: wrong numbers are refused and change nothing.
//
// Not thread-safe.

#ifndef MILLRACE_SERVER_LOCAL_SLOT_TABLE_H_
#define MILLRACE_SERVER_LOCAL_SLOT_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"

namespace millrace::local {

class SlotTable {
 public:
  enum class State { kIdle, kFilling, kLent };

  // Adds a slot of `bytes` that is being filled, and returns its number.
  uint64_t Add(uint64_t bytes);

  // The slot of exactly `bytes` that became idle last: filling from now on.
  std::optional<uint64_t> Take(uint64_t bytes);

  // What was filled is not lent.
  void Return(uint64_t slot, SteadyTime now);

  // Lends a filled slot as announcement `sequence` (from 1) of `call`; returns
  // the generation.
  uint64_t Lend(uint64_t slot, uint64_t call, uint64_t sequence,
                SteadyTime now);

  // InvalidArgument: no such slot, not lent, or not in this generation.
  absl::Status Release(uint64_t slot, uint64_t generation, SteadyTime now);

  // The client saw the first `seen` announcements of `call`: those after them
  // are idle again. False: there were none.
  bool EndCall(uint64_t call, uint64_t seen, SteadyTime now);

  // Removes the idle slots that became so before `before` and returns them.
  std::vector<uint64_t> RemoveIdle(SteadyTime before);

  // Removes a slot in whatever state.
  void Remove(uint64_t slot);

  size_t size() const { return slots_.size(); }
  uint64_t lent() const;
  // When the slot was lent that is lent for the longest time.
  std::optional<SteadyTime> oldest_lending() const;
  bool filling(uint64_t slot) const;

 private:
  struct Slot {
    uint64_t number = 0;
    uint64_t bytes = 0;
    State state = State::kFilling;
    // How often the slot was lent: of the present lending while it is lent.
    uint64_t generation = 0;
    // Of the present lending.
    uint64_t call = 0;
    uint64_t sequence = 0;
    SteadyTime lent_since;
    // Of an idle slot. The order tells slots apart that became idle at one
    // time.
    SteadyTime idle_since;
    uint64_t idle_order = 0;
  };

  Slot* Find(uint64_t number);
  void MakeIdle(Slot& slot, SteadyTime now);

  // At most SharedMemoryLimits::kMaxSlots or so: searched one by one.
  std::vector<Slot> slots_;
  // Numbers never come again, so a late message about a slot that is gone is
  // recognised.
  uint64_t next_number_ = 1;
  uint64_t next_order_ = 1;
};

}  // namespace millrace::local

#endif  // MILLRACE_SERVER_LOCAL_SLOT_TABLE_H_
