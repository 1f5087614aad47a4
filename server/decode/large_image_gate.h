// LargeImageGate lets those images in that need more memory than a worker's
// scratch is counted for: as many at the same time as fit in `bytes` together,
// and one alone that is larger. In the order in which they came, so that the
// largest do not starve.
//
// Thread-safe. Admission blocks; it must not outlive the gate, and a thread
// must not ask for a second one while it holds one.
//
//   LargeImageGate::Admission admission;  // holds nothing yet
//   admission.Enter(gate, bytes);

#ifndef MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_
#define MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_

#include <cstdint>

#include "common/mutex.h"

namespace millrace {

class LargeImageGate {
 public:
  explicit LargeImageGate(int64_t bytes) : capacity_(bytes) {}

  class Admission {
   public:
    Admission() = default;
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;
    ~Admission() {
      if (gate_ != nullptr) gate_->Leave(bytes_);
    }

    // Once.
    void Enter(LargeImageGate& gate, int64_t bytes) {
      gate.Enter(bytes);
      gate_ = &gate;
      bytes_ = bytes;
    }

   private:
    LargeImageGate* gate_ = nullptr;
    int64_t bytes_ = 0;
  };

 private:
  void Enter(int64_t bytes) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const uint64_t ticket = next_ticket_++;
    while (ticket != serving_ || (used_ > 0 && used_ + bytes > capacity_)) {
      changed_.Wait(lock);
    }
    ++serving_;
    used_ += bytes;
    changed_.NotifyAll();  // the next in line may fit, too
  }

  void Leave(int64_t bytes) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    used_ -= bytes;
    changed_.NotifyAll();
  }

  const int64_t capacity_;
  Mutex mu_;
  CondVar changed_;
  int64_t used_ MR_GUARDED_BY(mu_) = 0;
  uint64_t next_ticket_ MR_GUARDED_BY(mu_) = 0;
  uint64_t serving_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_DECODE_LARGE_IMAGE_GATE_H_
