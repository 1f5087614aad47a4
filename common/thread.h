// NamedThread is a std::thread that shows up under a name (in top, gdb and
// perf) and is joined when it is destroyed: it cannot be forgotten.
//
//   NamedThread thread("mr-worker-0", [&] { Work(); });

#ifndef MILLRACE_COMMON_THREAD_H_
#define MILLRACE_COMMON_THREAD_H_

#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

namespace millrace {

class NamedThread {
 public:
  NamedThread() = default;

  // The system shows the first 15 bytes of the name.
  template <typename Body>
  NamedThread(std::string name, Body body)
      : thread_([name = name.substr(0, 15), body = std::move(body)]() mutable {
          pthread_setname_np(pthread_self(), name.c_str());
          body();
        }) {}

  NamedThread(NamedThread&&) = default;
  NamedThread& operator=(NamedThread&& other) {
    Join();
    thread_ = std::move(other.thread_);
    return *this;
  }
  ~NamedThread() { Join(); }

  // Idempotent.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_THREAD_H_
