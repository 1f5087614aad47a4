// BoundedQueue hands items from producers to consumers, first in, first out,
// and holds at most `capacity` of them: a fast producer waits.
//
// Thread-safe. Owns no thread. After Close(), Push() refuses, Pop() gives out
// what is left and then nothing.
//
//   BoundedQueue<Task> queue(64);
//   if (!queue.Push(std::move(task))) return;          // closed
//   while (std::optional<Task> task = queue.Pop()) Run(*task);

#ifndef MILLRACE_COMMON_BOUNDED_QUEUE_H_
#define MILLRACE_COMMON_BOUNDED_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/mutex.h"

namespace millrace {

template <typename T>
class BoundedQueue {
 public:
  // `capacity` is at least 1.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False when the queue is closed; `item` is then dropped.
  bool Push(T item) {
    {
      MutexLock lock(mu_);
      while (items_.size() >= capacity_ && !closed_) not_full_.Wait(lock);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.NotifyOne();
    return true;
  }

  // Waits for an item. Nothing when the queue is closed and empty.
  std::optional<T> Pop() {
    std::optional<T> item;
    {
      MutexLock lock(mu_);
      while (items_.empty() && !closed_) not_empty_.Wait(lock);
      if (items_.empty()) return item;
      item.emplace(std::move(items_.front()));
      items_.pop_front();
    }
    not_full_.NotifyOne();
    return item;
  }

  // Idempotent.
  void Close() {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    not_full_.NotifyAll();
    not_empty_.NotifyAll();
  }

  size_t size() const {
    MutexLock lock(mu_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable Mutex mu_;
  CondVar not_full_;
  CondVar not_empty_;
  std::deque<T> items_ MR_GUARDED_BY(mu_);
  bool closed_ MR_GUARDED_BY(mu_) = false;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_BOUNDED_QUEUE_H_
