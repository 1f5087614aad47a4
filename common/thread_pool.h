// ThreadPool runs tasks on a fixed number of named threads, in the order in
// which they were submitted. Its queue is bounded: Submit() waits for room.
//
// Thread-safe. Owns its threads; the destructor runs what was submitted and
// joins them. A task must not submit to its own pool when the queue may be full
// (it would wait for itself).
//
//   ThreadPool pool("mr-pack", 4, /*queue_capacity=*/64);
//   pool.Submit([&] { Compress(chunk); });
//   pool.Close();                              // waits for all of them

#ifndef MILLRACE_COMMON_THREAD_POOL_H_
#define MILLRACE_COMMON_THREAD_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/bounded_queue.h"
#include "common/thread.h"

namespace millrace {

class ThreadPool {
 public:
  // `threads` and `queue_capacity` are at least 1.
  ThreadPool(const std::string& name, uint32_t threads, size_t queue_capacity)
      : tasks_(queue_capacity) {
    threads_.reserve(threads);
    for (uint32_t i = 0; i < threads; ++i) {
      threads_.emplace_back(name + "-" + std::to_string(i), [this] {
        // Nothing comes after Close() once the queue is empty. The task is
        // destroyed before the next one is taken.
        while (auto task = tasks_.Pop()) (*task)();
      });
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { Close(); }

  // False after Close(): the task will not run.
  bool Submit(std::function<void()> task) {
    return tasks_.Push(std::move(task));
  }

  // Runs what was submitted, then joins. Idempotent; one caller at a time, not
  // from a task. Submit() calls that wait for room return false.
  void Close() {
    tasks_.Close();
    for (NamedThread& thread : threads_) thread.Join();
  }

 private:
  // Thread-safe by itself. Before threads_, which use it until they are joined.
  BoundedQueue<std::function<void()>> tasks_;
  std::vector<NamedThread> threads_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_THREAD_POOL_H_
