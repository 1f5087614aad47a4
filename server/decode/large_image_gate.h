// LargeImageGate admits images that need more memory than a worker's reserved
// scratch. It charges them to the memory budget as long as the budget has room,
// so the budget limits the number of such images that are decoded at the same
// time. Without room in the budget, images share `capacity` bytes, which the
// owner has set aside: nothing but admitted images uses them, so there is
// always progress.
//
// Requests that wait form lines, one for each client of a plan. The lines take
// turns, and within a line the earliest step is admitted first, whenever its
// request came: the first batch of a client waits neither for the images of its
// later batches nor for those of a client with a wider window. The request with
// the next turn is never overtaken, so that large images do not starve.
//
// Thread-safe. A request is at most capacity(): the caller has checked that,
// because a larger request could wait forever. An admission must not outlive
// the gate, and a thread must not wait for one while it holds one. `admitted`
// runs on the thread that made room (or on the caller's, when there is room at
// once), outside the lock.
//
//   LargeImageGate::Admission admission;  // holds nothing yet
//   if (!gate.TryEnter(bytes, &admission)) {
//     gate.EnterAsync(bytes, {.line = client, .epoch = 0, .step = 7},
//                     [](LargeImageGate::Admission admission) {...});
//   }

#ifndef MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_
#define MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
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

  // Where a request waits.
  struct Place {
    std::string line;  // of a client and its plan; "": of all others
    uint64_t epoch = 0;
    uint64_t step = 0;
  };

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
    return lines_.empty() && Take(bytes, admission);
  }

  // Calls `admitted` once.
  void EnterAsync(int64_t bytes, const Place& place,
                  std::function<void(Admission)> admitted) MR_EXCLUDES(mu_) {
    Admission admission;
    {
      MutexLock lock(mu_);
      if (!lines_.empty() || !Take(bytes, &admission)) {
        Line& line = LineOf(place.line);
        line.waiting.emplace(std::pair(place.epoch, place.step),
                             Waiter{bytes, std::move(admitted)});
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
    EnterAsync(bytes, {}, [wait](Admission admitted) {
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
  struct Line {
    std::string name;
    // By epoch and step; equal ones in order of arrival. Not empty.
    std::multimap<std::pair<uint64_t, uint64_t>, Waiter> waiting;
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

  // The line of the name; a new one has the last turn.
  Line& LineOf(const std::string& name) MR_REQUIRES(mu_) {
    const auto [found, is_new] = by_name_.try_emplace(name);
    if (is_new) {
      found->second = lines_.insert(lines_.end(), Line{name, {}});
    }
    return *found->second;
  }

  // Takes the first request of the line with the turn. False: there is none, or
  // no room for it.
  bool TakeNext(Waiter* next, Admission* admission) MR_REQUIRES(mu_) {
    if (lines_.empty()) return false;
    Line& line = lines_.front();
    const auto first = line.waiting.begin();
    if (!Take(first->second.bytes, admission)) return false;
    *next = std::move(first->second);
    line.waiting.erase(first);
    if (line.waiting.empty()) {
      by_name_.erase(line.name);
      lines_.pop_front();
    } else {
      lines_.splice(lines_.end(), lines_, lines_.begin());
    }
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
        if (!TakeNext(&next, &admission)) return;
      }
      next.admitted(std::move(admission));
    }
  }

  const int64_t capacity_;
  ByteBudget* const budget_;
  const Advice advice_;
  Mutex mu_;
  int64_t used_ MR_GUARDED_BY(mu_) = 0;  // of the capacity
  // Of requests that wait, in the order of their turns. If there is one, the
  // first request of the front line does not fit, or a thread is on its way to
  // TakeNext().
  std::list<Line> lines_ MR_GUARDED_BY(mu_);
  std::map<std::string, std::list<Line>::iterator> by_name_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_
