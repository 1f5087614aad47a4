#include "server/local/slot_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/logging.h"

namespace millrace::local {

SlotTable::Slot* SlotTable::Find(uint64_t number) {
  for (Slot& slot : slots_) {
    if (slot.number == number) return &slot;
  }
  return nullptr;
}

// The only function that sets kIdle. The generation stays, so a second
// Release() of the same lending finds a slot that is not lent.
void SlotTable::MakeIdle(Slot& slot, SteadyTime now) {
  slot.state = State::kIdle;
  slot.idle_since = now;
  slot.idle_order = next_order_++;
}

uint64_t SlotTable::Add(uint64_t bytes) {
  Slot& slot = slots_.emplace_back();
  slot.number = next_number_++;
  slot.bytes = bytes;
  return slot.number;
}

std::optional<uint64_t> SlotTable::Take(uint64_t bytes) {
  // The slot that became idle last: its memory is still cached, and the other
  // slots become old enough to be removed.
  Slot* best = nullptr;
  for (Slot& slot : slots_) {
    if (slot.state != State::kIdle || slot.bytes != bytes) continue;
    if (best == nullptr || slot.idle_order > best->idle_order) best = &slot;
  }
  if (best == nullptr) return std::nullopt;
  best->state = State::kFilling;
  return best->number;
}

void SlotTable::Return(uint64_t number, SteadyTime now) {
  Slot* slot = Find(number);
  // The number comes from this process. Only the thread that fills a slot
  // removes it.
  MR_CHECK(slot != nullptr && slot->state == State::kFilling);
  MakeIdle(*slot, now);
}

uint64_t SlotTable::Lend(uint64_t number, uint64_t call, uint64_t sequence,
                         SteadyTime now) {
  Slot* slot = Find(number);
  MR_CHECK(slot != nullptr && slot->state == State::kFilling);
  slot->state = State::kLent;
  slot->call = call;
  slot->sequence = sequence;
  slot->lent_since = now;
  // Each lending has a new generation, so that the client's answer to an
  // earlier lending does not release this one.
  return ++slot->generation;
}

absl::Status SlotTable::Release(uint64_t number, uint64_t generation,
                                SteadyTime now) {
  Slot* slot = Find(number);
  // The numbers come from the client: a wrong one is refused, and nothing
  // changes.
  if (slot == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot ", number, " was returned and does not exist"));
  }
  if (slot->state != State::kLent || slot->generation != generation) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slot ", number, " was returned in generation ", generation,
        slot->state == State::kLent
            ? absl::StrCat(" and is lent in generation ", slot->generation)
            : std::string(" and is not lent")));
  }
  MakeIdle(*slot, now);
  return absl::OkStatus();
}

bool SlotTable::EndCall(uint64_t call, uint64_t seen, SteadyTime now) {
  bool any = false;
  for (Slot& slot : slots_) {
    // The client gives back announcements up to `seen` one by one, now or
    // later.
    if (slot.state == State::kLent && slot.call == call &&
        slot.sequence > seen) {
      MakeIdle(slot, now);
      any = true;
    }
  }
  return any;
}

std::vector<uint64_t> SlotTable::RemoveIdle(SteadyTime before) {
  std::vector<uint64_t> removed;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kIdle && slot.idle_since < before) {
      removed.push_back(slot.number);
    }
  }
  // After the iteration, because Remove() moves the later slots.
  for (const uint64_t number : removed) Remove(number);
  return removed;
}

void SlotTable::Remove(uint64_t number) {
  std::erase_if(slots_, [&](const Slot& s) { return s.number == number; });
}

bool SlotTable::filling(uint64_t number) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
    return s.number == number && s.state == State::kFilling;
  });
}

std::optional<SteadyTime> SlotTable::oldest_lending() const {
  std::optional<SteadyTime> oldest;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kLent &&
        (!oldest.has_value() || slot.lent_since < *oldest)) {
      oldest = slot.lent_since;
    }
  }
  return oldest;
}

uint64_t SlotTable::lent() const {
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const Slot& s) { return s.state == State::kLent; });
}

}  // namespace millrace::local
