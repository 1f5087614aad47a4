// A mutex, its lock and a condition variable with annotations that clang's
// -Wthread-safety checks. They are thin wrappers of the standard ones: unlike
// absl::Mutex of a system library that is not instrumented, ThreadSanitizer
// understands them.
//
//   Mutex mu;
//   int n MR_GUARDED_BY(mu) = 0;
//   CondVar changed;
//   { MutexLock lock(mu); ++n; changed.NotifyAll(); }
//   { MutexLock lock(mu); while (n == 0) changed.Wait(lock); }

#ifndef MILLRACE_COMMON_MUTEX_H_
#define MILLRACE_COMMON_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#define MR_GUARDED_BY(x) ABSL_GUARDED_BY(x)
#define MR_REQUIRES(...) ABSL_EXCLUSIVE_LOCKS_REQUIRED(__VA_ARGS__)
#define MR_EXCLUDES(...) ABSL_LOCKS_EXCLUDED(__VA_ARGS__)

namespace millrace {

// A time that no change of the system's clock moves.
using SteadyTime = std::chrono::steady_clock::time_point;

// `timeout` from now; one beyond a century is SteadyTime::max(), which never
// comes.
inline SteadyTime SteadyDeadline(absl::Duration timeout) {
  constexpr absl::Duration kCentury = absl::Hours(24 * 365 * 100);
  if (timeout > kCentury) return SteadyTime::max();
  return std::chrono::steady_clock::now() +
         absl::ToChronoNanoseconds(timeout > -kCentury ? timeout : -kCentury);
}

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mu_;
};

// Holds the mutex while it lives.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu)
      : lock_(mu.mu_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // May wake without a reason: wait in a loop over the condition.
  void Wait(MutexLock& lock) { cv_.wait(lock.lock_); }

  // Returns false when `deadline` has passed. InfiniteFuture waits for ever. By
  // the system's clock: for times that people or other machines have named.
  bool WaitUntil(MutexLock& lock, absl::Time deadline) {
    if (deadline == absl::InfiniteFuture()) {
      cv_.wait(lock.lock_);
      return true;
    }
    return cv_.wait_until(lock.lock_, absl::ToChronoTime(deadline)) ==
           std::cv_status::no_timeout;
  }

  // The same by the steady clock: for timeouts. SteadyTime::max() waits for
  // ever.
  bool WaitUntil(MutexLock& lock, SteadyTime deadline) {
    if (deadline == SteadyTime::max()) {
      cv_.wait(lock.lock_);
      return true;
    }
    return cv_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_MUTEX_H_
