// ByteBudget bounds the memory of everything that takes part in it. A whole
// batch is reserved at once, before any work, first come first served: a large
// request at the head of the queue is not overtaken by small ones behind it, so
// none starves.
//
// Bytes that are not in use can be borrowed, to keep memory for later. A
// request is granted as if nothing was borrowed; the borrower is told to free
// memory before the requester gets to use what it was granted.
//
// Thread-safe. Owns no thread: `granted` runs on the thread that made room (or
// on the caller's, when there is room at once), without the lock. So destroying
// a reservation may run other callers' code: do not do so under a lock that
// this code takes.

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

  // Takes the bytes now, or nothing: also nothing while others wait in the
  // queue. A reservation that `*reservation` held before is given back.
  bool TryReserve(uint64_t bytes, Reservation* reservation);

  // Queues for `bytes` (at most capacity(): the caller has checked that) and
  // calls `granted` exactly once, unless CancelWait came first. Returns 0 when
  // it was granted before the return.
  Ticket ReserveAsync(uint64_t bytes, std::function<void(Reservation)> granted);

  // True: the request was still waiting, and its callback will never run.
  // False: it has run, runs, or is about to run on another thread. Of several
  // callers with one ticket, one gets true.
  bool CancelWait(Ticket ticket);

  // Counts `bytes` as borrowed, which used() does not include. False: they are
  // in use, or a request waits for them.
  bool Borrow(uint64_t bytes);

  // `bytes` that were borrowed are free: to be called after their memory is.
  void Repay(uint64_t bytes);

  // `reclaim` is called without locks on a thread that was just granted bytes,
  // of which `bytes` are borrowed: it frees and repays at least these, as far
  // as it still has them. Replaces the one before.
  void SetReclaim(std::function<void(uint64_t bytes)> reclaim);

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

  // The end of a reservation.
  void Give(uint64_t bytes);
  // `bytes` are in use from now on; the caller has seen that they are free.
  void Count(uint64_t bytes) MR_REQUIRES(mu_);
  // Frees what is borrowed beyond the capacity. After Count(), without the lock
  // and before what was counted is used.
  void ReclaimBorrowed();
  // Grants from the head of the queue as long as it fits. To be called without
  // the lock whenever bytes have become free or the head has changed.
  void Pump();

  const uint64_t capacity_;
  mutable Mutex mu_;
  // Bytes of all reservations; at most capacity_.
  uint64_t used_ MR_GUARDED_BY(mu_) = 0;
  uint64_t peak_ MR_GUARDED_BY(mu_) = 0;
  // With used_ at most capacity_, but between a grant and the end of its
  // ReclaimBorrowed().
  uint64_t borrowed_ MR_GUARDED_BY(mu_) = 0;
  std::function<void(uint64_t)> reclaim_ MR_GUARDED_BY(mu_);
  Ticket next_ticket_ MR_GUARDED_BY(mu_) = 1;
  // Requests that wait, first come first. If it is not empty, no other request
  // is granted, and its head does not fit, or a thread is on its way to Pump().
  std::deque<Waiter> line_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_BYTE_BUDGET_H_
