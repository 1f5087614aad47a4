#include "common/byte_budget.h"

#include <algorithm>
#include <utility>

#include "common/logging.h"

namespace millrace {

ByteBudget::Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ByteBudget::Reservation& ByteBudget::Reservation::operator=(
    Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void ByteBudget::Reservation::Release() {
  if (ByteBudget* budget = std::exchange(budget_, nullptr)) {
    budget->Give(std::exchange(bytes_, 0));
  }
}

ByteBudget::ByteBudget(uint64_t capacity_bytes) : capacity_(capacity_bytes) {}

bool ByteBudget::TryReserve(uint64_t bytes, Reservation* reservation) {
  {
    MutexLock lock(mu_);
    // Nothing past the queue, even if it fits: small requests would starve a
    // large one at its head. The subtraction cannot wrap: used_ is at most
    // capacity_.
    if (!line_.empty() || bytes > capacity_ - used_) return false;
    Count(bytes);
  }
  // Counted already, so no other thread can take the bytes meanwhile.
  ReclaimBorrowed();
  // Without the lock: what `*reservation` held before goes back by Give().
  *reservation = Reservation(this, bytes);
  return true;
}

ByteBudget::Ticket ByteBudget::ReserveAsync(
    uint64_t bytes, std::function<void(Reservation)> granted) {
  MR_CHECK(bytes <= capacity_)
      << "the request of " << bytes << " bytes exceeds the budget";
  {
    MutexLock lock(mu_);
    if (!line_.empty() || bytes > capacity_ - used_) {
      // In the queue and with its ticket under one lock: the callback may run
      // before the caller has the ticket.
      const Ticket ticket = next_ticket_++;
      line_.push_back({ticket, bytes, std::move(granted)});
      return ticket;
    }
    Count(bytes);
  }
  ReclaimBorrowed();
  granted(Reservation(this, bytes));
  return 0;
}

bool ByteBudget::CancelWait(Ticket ticket) {
  // Declared before the lock: its callback, and what that holds, is destroyed
  // after it.
  Waiter cancelled;
  {
    MutexLock lock(mu_);
    auto it = std::find_if(line_.begin(), line_.end(),
                           [&](const Waiter& w) { return w.ticket == ticket; });
    if (it == line_.end()) return false;
    cancelled = std::move(*it);
    line_.erase(it);
  }
  // The next one may fit where the cancelled one did not.
  Pump();
  return true;
}

void ByteBudget::Give(uint64_t bytes) {
  {
    MutexLock lock(mu_);
    MR_CHECK(bytes <= used_);
    used_ -= bytes;
  }
  Pump();
}

void ByteBudget::Pump() {
  // Several threads may be here: each grant is taken from the queue and counted
  // under one lock, so none is made twice, and the last thread that frees bytes
  // continues after it. `granted` may call this again, by a reservation that it
  // drops; each level makes progress, for the waiter that it grants is out of
  // the queue.
  while (true) {
    Waiter next;
    {
      MutexLock lock(mu_);
      if (line_.empty() || line_.front().bytes > capacity_ - used_) return;
      next = std::move(line_.front());
      line_.pop_front();
      Count(next.bytes);
    }
    ReclaimBorrowed();
    next.granted(Reservation(this, next.bytes));
  }
}

bool ByteBudget::Borrow(uint64_t bytes) {
  MutexLock lock(mu_);
  // Between a grant and its ReclaimBorrowed() the sum may exceed the capacity.
  const uint64_t taken = used_ + borrowed_;
  if (!line_.empty() || taken > capacity_ || bytes > capacity_ - taken) {
    return false;
  }
  borrowed_ += bytes;
  return true;
}

void ByteBudget::Repay(uint64_t bytes) {
  MutexLock lock(mu_);
  MR_CHECK(bytes <= borrowed_);
  borrowed_ -= bytes;
}

void ByteBudget::SetReclaim(std::function<void(uint64_t bytes)> reclaim) {
  MutexLock lock(mu_);
  reclaim_ = std::move(reclaim);
}

void ByteBudget::Count(uint64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

void ByteBudget::ReclaimBorrowed() {
  std::function<void(uint64_t)> reclaim;
  uint64_t bytes;
  {
    MutexLock lock(mu_);
    if (used_ + borrowed_ <= capacity_) return;
    bytes = used_ + borrowed_ - capacity_;
    // Copied, and called without the lock, which it takes by Repay(). Two
    // grants that come at once may both name the same bytes; then more is freed
    // than is needed, which does no harm.
    reclaim = reclaim_;
  }
  if (reclaim != nullptr) reclaim(bytes);
}

uint64_t ByteBudget::used() const {
  MutexLock lock(mu_);
  return used_;
}

uint64_t ByteBudget::peak() const {
  MutexLock lock(mu_);
  return peak_;
}

uint64_t ByteBudget::waiting() const {
  MutexLock lock(mu_);
  return line_.size();
}

}  // namespace millrace
