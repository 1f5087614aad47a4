// ByteBudget bounds the memory of everything that takes part in it. A whole
// batch is reserved at once, before any work, first come first served: a large
// request at the head of the queue is not overtaken by small ones behind it,
// so none starves.
//
// Thread-safe. Owns no thread: `granted` runs on the thread that made room (or
// on the caller's, when there is room at once), outside the lock.

#ifndef MILLRACE_COMMON_BYTE_BUDGET_H_
#define MILLRACE_COMMON_BYTE_BUDGET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace millrace {

class ByteBudget {
 public:
  explicit ByteBudget(uint64_t capacity_bytes);

  // Bytes taken from the budget; gives them back when destroyed. The budget
  // must outlive it.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { Release(); }
    uint64_t bytes() const { return bytes_; }
    void Release();

   private:
    friend class ByteBudget;
    Reservation(ByteBudget* budget, uint64_t bytes)
        : budget_(budget), bytes_(bytes) {}
    ByteBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
  };

  using Ticket = uint64_t;  // of a waiting request; 0 is never given

  // Takes the bytes now, or nothing: also nothing while others wait in line.
  bool TryReserve(uint64_t bytes, Reservation* reservation);

  // Queues for `bytes` (at most capacity(): the caller has checked that) and
  // calls `granted` exactly once, unless CancelWait came first. Returns 0 when
  // it was granted before the return.
  Ticket ReserveAsync(uint64_t bytes, std::function<void(Reservation)> granted);

  // True when the request was still waiting; its callback will never run.
  // False when it ran or is about to run.
  bool CancelWait(Ticket ticket);

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;
  uint64_t peak() const;
  uint64_t waiting() const;  // requests in line

 private:
  struct Waiter {
    Ticket ticket;
    uint64_t bytes;
    std::function<void(Reservation)> granted;
  };

  void Give(uint64_t bytes);
  // Grants from the head of the line, outside the lock.
  void Pump();

  const uint64_t capacity_;
  mutable Mutex mu_;
  uint64_t used_ MR_GUARDED_BY(mu_) = 0;
  uint64_t peak_ MR_GUARDED_BY(mu_) = 0;
  Ticket next_ticket_ MR_GUARDED_BY(mu_) = 1;
  std::deque<Waiter> line_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_BYTE_BUDGET_H_
