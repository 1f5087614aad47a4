// RequestBudget says how many batches may be requested now, and how many of
// them by one call. Calls have a cost: a slow consumer gets few calls, and a
// consumer that holds most slots gets small ones.
//
// What it is not: it sends no request and counts nothing itself.
//
// Plain data and pure functions. The numbers are read one after the other while
// other threads change them; right after a Seek() they may belong to two
// positions. The result does not matter then, but it is defined.
//
//   const RequestBudget budget = {...};
//   if (budget.RoomForCall()) {
//     ... request std::min(budget.Chunk(share), budget.Free()) batches ...
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_REQUEST_BUDGET_H_
#define MILLRACE_CLIENT_PREFETCH_REQUEST_BUDGET_H_

#include <cstdint>

namespace millrace::prefetch {

struct RequestBudget {
  uint64_t next = 0;     // the batch that Next() returns next
  uint64_t end = 0;      // the first batch that was never requested
  uint64_t total = 0;    // batches of the sequence
  uint32_t held = 0;     // slots that the consumer holds
  uint32_t slots = 0;    // all slots, without spares
  uint32_t window = 0;   // max batches requested and not consumed
  uint32_t servers = 0;  // that can be sent a request

  // Batches that may be requested besides the outstanding ones.
  uint64_t Free() const;

  // Batches for one call at a server with this share of all steps, at least 1.
  uint64_t Chunk(double share) const;

  // Whether there is room for a whole call at one of `servers` equal servers.
  bool RoomForCall() const;

 private:
  // Max number of batches besides those that the consumer holds.
  uint64_t Room() const;
  uint64_t Servers() const;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_REQUEST_BUDGET_H_
