// A device that is late on purpose. Two streams of the program's and one for
// copies, each a thread with a queue; every piece of work waits a random number
// of microseconds before it runs.
// Its memory is host memory that is poisoned when allocated, so what runs in
// the wrong order reads wrong values, and ThreadSanitizer sees it too.

#ifndef MILLRACE_TESTS_CLIENT_TORCH_FAKE_DEVICE_H_
#define MILLRACE_TESTS_CLIENT_TORCH_FAKE_DEVICE_H_

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "client/torch/device.h"
#include "common/mutex.h"

namespace millrace::device {

class FakeStream {
 public:
  explicit FakeStream(uint32_t seed, int max_delay_us)
      : random_(seed),
        max_delay_us_(max_delay_us),
        thread_([this] { Run(); }) {}
  ~FakeStream() {
    {
      MutexLock lock(mu_);
      ended_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Queue(std::function<void()> work) {
    MutexLock lock(mu_);
    if (failed_) return;
    work_.push_back({std::move(work), /*event=*/false});
    changed_.NotifyAll();
  }
  // `pass` is called even if the stream fails.
  void QueueEvent(std::function<void()> pass) {
    MutexLock lock(mu_);
    work_.push_back({std::move(pass), /*event=*/true});
    changed_.NotifyAll();
  }

  // When it returns, nothing runs any more.
  void Fail() {
    MutexLock lock(mu_);
    failed_ = true;
    while (running_) changed_.Wait(lock);
  }

 private:
  struct Work {
    std::function<void()> run;
    bool event = false;
  };

  void Run() {
    while (true) {
      Work work;
      {
        MutexLock lock(mu_);
        running_ = false;
        changed_.NotifyAll();
        while (work_.empty() && !ended_) changed_.Wait(lock);
        if (work_.empty()) return;
        work = std::move(work_.front());
        work_.pop_front();
        if (failed_ && !work.event) continue;
        running_ = true;
      }
      // The delay is the device's slowness, not a way to order anything.
      std::this_thread::sleep_for(std::chrono::microseconds(
          std::uniform_int_distribution<>(0, max_delay_us_)(random_)));
      work.run();
    }
  }

  Mutex mu_;
  CondVar changed_;
  bool ended_ MR_GUARDED_BY(mu_) = false;
  bool failed_ MR_GUARDED_BY(mu_) = false;
  bool running_ MR_GUARDED_BY(mu_) = false;
  std::deque<Work> work_ MR_GUARDED_BY(mu_);
  std::mt19937 random_;
  const int max_delay_us_;
  std::thread thread_;
};

// The threads on which the host has waited for the device.
class FakeAwaits {
 public:
  void Add() {
    MutexLock lock(mu_);
    threads_.insert(std::this_thread::get_id());
  }
  bool Has(std::thread::id thread) {
    MutexLock lock(mu_);
    return threads_.count(thread) > 0;
  }

 private:
  Mutex mu_;
  std::set<std::thread::id> threads_ MR_GUARDED_BY(mu_);
};

class FakeEvent final : public DeviceEvent {
 public:
  // `stream`: where it is recorded.
  FakeEvent(std::shared_ptr<FakeAwaits> awaits, const FakeStream* stream,
            absl::Status status = absl::OkStatus())
      : awaits_(std::move(awaits)),
        stream_(stream),
        status_(std::move(status)),
        passed_(!status_.ok()) {}
  absl::Status status() const override { return status_; }
  const FakeStream* stream() const { return stream_; }
  void Pass() {
    MutexLock lock(mu_);
    passed_ = true;
    passed_at_ = std::chrono::steady_clock::now();
    changed_.NotifyAll();
  }
  double SecondsAfter(const DeviceEvent& earlier) const override {
    const auto begin = static_cast<const FakeEvent&>(earlier).passed_at();
    const auto end = passed_at();
    if (begin > end) return 0;  // one of them never passed: the device failed
    return std::chrono::duration<double>(end - begin).count();
  }
  void Await() override {
    awaits_->Add();
    UntilPassed();
  }
  // As Await(), for streams and tests.
  void UntilPassed() {
    MutexLock lock(mu_);
    while (!passed_) changed_.Wait(lock);
  }

 private:
  std::chrono::steady_clock::time_point passed_at() const {
    MutexLock lock(mu_);
    return passed_at_;
  }

  const std::shared_ptr<FakeAwaits> awaits_;
  const FakeStream* const stream_;
  const absl::Status status_;
  mutable Mutex mu_;
  CondVar changed_;
  bool passed_ MR_GUARDED_BY(mu_);
  std::chrono::steady_clock::time_point passed_at_ MR_GUARDED_BY(mu_);
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(uint32_t seed, int max_delay_us = 300)
      : consumer_(seed, max_delay_us),
        other_(seed + 2, max_delay_us),
        copy_(seed + 1, max_delay_us) {}

  void EnterThread() override {
    MutexLock lock(mu_);
    entered_.insert(std::this_thread::get_id());
  }
  bool is_host() const override { return false; }
  uint8_t* Allocate(uint64_t bytes) override {
    auto* data = static_cast<uint8_t*>(std::malloc(bytes));
    std::memset(data, 0xdd, bytes);
    if (late_work_) {
      for (int i = 0; i < 50; ++i) {
        consumer_.Queue([=] { std::memset(data, 0xcc, bytes); });
      }
    }
    return data;
  }
  // In the order of the stream that allocates, as a caching allocator does; so
  // also when the device has failed.
  void Free(uint8_t* data, uint64_t bytes,
            absl::Span<const std::shared_ptr<DeviceEvent>> after) override {
    std::vector<std::shared_ptr<FakeEvent>> events;
    for (const auto& event : after) events.push_back(Fake(*event));
    consumer_.QueueEvent([data, bytes, events = std::move(events)] {
      for (const auto& event : events) event->UntilPassed();
      std::memset(data, 0xdd, bytes);
      std::free(data);
    });
  }
  absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                      uint64_t bytes) override {
    copy_.Queue([=] { std::memcpy(target, source, bytes); });
    return absl::OkStatus();
  }
  absl::Status Cast(const TensorCast& cast, const uint8_t* source,
                    uint8_t* target, uint8_t* scratch,
                    uint64_t elements) override {
    copy_.Queue([=, &cast, this] {
      std::memset(scratch, 0xdd, CastScratchBytes(cast, elements));
      cast.Apply(source, target, elements);
    });
    return absl::OkStatus();
  }
  uint64_t CastScratchBytes(const TensorCast&,
                            uint64_t elements) const override {
    return elements;  // to see that it is in nobody's way
  }
  std::shared_ptr<DeviceEvent> RecordCopy() override { return Record(copy_); }
  DeviceStream CurrentStream() override { return {.id = on_other_ ? 1 : 0}; }
  std::shared_ptr<DeviceEvent> RecordOn(const DeviceStream& stream) override {
    return Record(stream.id == 0 ? consumer_ : other_);
  }
  void CopyWaits(DeviceEvent& event) override {
    if (Fake(event)->stream() == &other_) copies_wait_for_other_ = true;
    Wait(copy_, event);
  }
  void ConsumerWaits(DeviceEvent& event) override {
    Wait(on_other_ ? other_ : consumer_, event);
  }

  // Allocate() gives out memory that work of its last owner still writes, as
  // a caching allocator does.
  void AllocateUnderLateWork() { late_work_ = true; }

  // What is queued is not done, and no event can be made any more. The first
  // stream's work must not wait for the second's.
  void Fail() {
    failed_ = true;
    consumer_.Fail();
    other_.Fail();
    copy_.Fail();
  }

  // Threads that have called EnterThread().
  size_t entered() {
    MutexLock lock(mu_);
    return entered_.size();
  }

  // The program's own work on the device: on its first stream, which is the
  // current one of every thread, and on its other one.
  FakeStream& consumer() { return consumer_; }
  FakeStream& other() { return other_; }
  static constexpr DeviceStream kOther = {.id = 1};
  // The other stream is this thread's current one while it lives.
  struct OnOther {
    OnOther() { on_other_ = true; }
    ~OnOther() { on_other_ = false; }
  };
  // A copy was queued behind what was queued on the other stream.
  bool CopiesWaitForOther() const { return copies_wait_for_other_; }
  // To hold it up.
  FakeStream& copies() { return copy_; }
  void Synchronize() { Fake(*Record(consumer_))->UntilPassed(); }
  void SynchronizeOther() { Fake(*Record(other_))->UntilPassed(); }
  void SynchronizeCopies() { Fake(*RecordCopy())->UntilPassed(); }
  // Whether the host has waited for the device on this thread.
  bool HasAwaited(std::thread::id thread) { return awaits_->Has(thread); }

 private:
  std::shared_ptr<DeviceEvent> Record(FakeStream& stream) {
    if (failed_) {
      return std::make_shared<FakeEvent>(awaits_, &stream,
                                         absl::InternalError("it failed"));
    }
    auto event = std::make_shared<FakeEvent>(awaits_, &stream);
    stream.QueueEvent([event] { event->Pass(); });
    return event;
  }
  static std::shared_ptr<FakeEvent> Fake(DeviceEvent& event) {
    return std::static_pointer_cast<FakeEvent>(event.shared_from_this());
  }
  static void Wait(FakeStream& stream, DeviceEvent& event) {
    // The caller may drop the event: the stream keeps it, as CUDA does.
    stream.Queue([kept = Fake(event)] { kept->UntilPassed(); });
  }

  static inline thread_local bool on_other_ = false;

  bool late_work_ = false;
  std::atomic<bool> copies_wait_for_other_ = false;
  std::atomic<bool> failed_ = false;
  Mutex mu_;
  std::set<std::thread::id> entered_ MR_GUARDED_BY(mu_);
  const std::shared_ptr<FakeAwaits> awaits_ = std::make_shared<FakeAwaits>();
  FakeStream consumer_;
  FakeStream other_;
  FakeStream copy_;
};

}  // namespace millrace::device

#endif  // MILLRACE_TESTS_CLIENT_TORCH_FAKE_DEVICE_H_
