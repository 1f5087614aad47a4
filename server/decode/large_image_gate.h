// LargeImageGate admits images that need more memory than a worker's reserved
// scratch. It charges them to the memory budget as long as the budget has room,
// so the budget limits the number of such images that are decoded at the same
// time. Without room in the budget, images share `capacity` bytes, which the
// owner has set aside: nothing but admitted images uses them, so there is
// always progress. Admission is first come, first served, so that large images
// do not starve.
//
// Thread-safe. A request is at most capacity(): the caller has checked that,
// because a larger request could wait forever. An admission must not outlive
// the gate, and a thread must not wait for one while it holds one. `admitted`
// runs on the thread that made room (or on the caller's, when there is room at
// once), outside the lock.
//
//   LargeImageGate::Admission admission;  // holds nothing yet
//   if (!gate.TryEnter(bytes, &admission)) {
//     gate.EnterAsync(bytes, [](LargeImageGate::Admission admission) {...});
//   }

#ifndef MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_
#define MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/byte_budget.h"
#include "common/mutex.h"

namespace millrace::decode {

class LargeImageGate {
 public:
  // Says why a request above the capacity is refused, and what to do.
  using Advice = std::function<std::string(int64_t bytes)>;

  // `budget` may be null: then `capacity` is all that there is. `advice` may be
  // null; thread-safe.
  explicit LargeImageGate(int64_t capacity, ByteBudget* budget = nullptr,
                          Advice advice = nullptr)
      : capacity_(capacity), budget_(budget), advice_(std::move(advice)) {}

  // The largest request that is admitted.
  int64_t capacity() const { return capacity_; }
  std::string AdviceFor(int64_t bytes) const {
    return advice_ == nullptr ? "" : advice_(bytes);
  }

  class Admission {
   public:
    Admission() = default;
    Admission(Admission&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          charged_(std::move(other.charged_)) {}
    Admission& operator=(Admission&& other) noexcept {
      if (this == &other) return *this;
      Leave();
      gate_ = std::exchange(other.gate_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      charged_ = std::move(other.charged_);
      return *this;
    }
    ~Admission() { Leave(); }

    // Bytes that it admits; 0: it holds nothing.
    int64_t bytes() const { return bytes_; }

    void Leave() {
      LargeImageGate* const gate = std::exchange(gate_, nullptr);
      if (gate == nullptr) return;
      const bool charged = charged_.bytes() > 0;
      charged_.Release();
      gate->Leave(charged ? 0 : std::exchange(bytes_, 0));
      bytes_ = 0;
    }

   private:
    friend class LargeImageGate;
    LargeImageGate* gate_ = nullptr;
    int64_t bytes_ = 0;
    ByteBudget::Reservation charged_;  // empty: of the gate's own bytes
  };

  // Takes it now, or nothing: also nothing while others wait.
  bool TryEnter(int64_t bytes, Admission* admission) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return waiting_.empty() && Take(bytes, admission);
  }

  // Calls `admitted` once.
  void EnterAsync(int64_t bytes, std::function<void(Admission)> admitted)
      MR_EXCLUDES(mu_) {
    Admission admission;
    {
      MutexLock lock(mu_);
      if (!waiting_.empty() || !Take(bytes, &admission)) {
        waiting_.push_back({bytes, std::move(admitted)});
        return;
      }
    }
    admitted(std::move(admission));
  }

  // Waits.
  void Enter(int64_t bytes, Admission* admission) MR_EXCLUDES(mu_) {
    struct Wait {
      Mutex mu;
      CondVar changed;
      bool done MR_GUARDED_BY(mu) = false;
      Admission admission MR_GUARDED_BY(mu);
    };
    const auto wait = std::make_shared<Wait>();
    EnterAsync(bytes, [wait](Admission admitted) {
      MutexLock lock(wait->mu);
      wait->admission = std::move(admitted);
      wait->done = true;
      wait->changed.NotifyAll();
    });
    MutexLock lock(wait->mu);
    while (!wait->done) wait->changed.Wait(lock);
    *admission = std::move(wait->admission);
  }

 private:
  struct Waiter {
    int64_t bytes;
    std::function<void(Admission)> admitted;
  };

  bool Take(int64_t bytes, Admission* admission) MR_REQUIRES(mu_) {
    if (budget_ == nullptr ||
        !budget_->TryReserve(bytes, &admission->charged_)) {
      if (used_ + bytes > capacity_) return false;
      used_ += bytes;
    }
    admission->gate_ = this;
    admission->bytes_ = bytes;
    return true;
  }

  void Leave(int64_t bytes) MR_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      used_ -= bytes;
    }
    // A waiting request is at most capacity_. So `used_` is above 0 while it
    // waits, and another Leave() follows.
    while (true) {
      Waiter next;
      Admission admission;
      {
        MutexLock lock(mu_);
        if (waiting_.empty() || !Take(waiting_.front().bytes, &admission)) {
          return;
        }
        next = std::move(waiting_.front());
        waiting_.pop_front();
      }
      next.admitted(std::move(admission));
    }
  }

  const int64_t capacity_;
  ByteBudget* const budget_;
  const Advice advice_;
  Mutex mu_;
  int64_t used_ MR_GUARDED_BY(mu_) = 0;  // of the capacity
  std::deque<Waiter> waiting_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_
