// Device is the interface of the feeder to the device that computes: memory, a
// copy stream of its own, and events that order the copy stream with the
// streams of the program.
//
// What it is not: it knows neither libtorch nor CUDA. So the rules of slots and
// lifetimes are tested against a fake that is slow on purpose, under
// ThreadSanitizer.
//
// Threads: one thread (the feeder's) calls CopyIn, Cast and the events of the
// copy stream. Any thread may call CurrentStream, which names the stream that
// is current on that thread, and RecordOn.
//
//   MR_RETURN_IF_ERROR(device->CopyIn(slot, host, bytes));     // queued
//   auto ready = device->RecordCopy();
//   device->ConsumerWaits(*ready);                             // queued, too

#ifndef MILLRACE_CLIENT_TORCH_DEVICE_H_
#define MILLRACE_CLIENT_TORCH_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/tensor_cast.h"

namespace millrace::device {

// Names a stream of the program, as c10::StreamData3 does. The stream must
// exist as long as the name is in use.
struct DeviceStream {
  int64_t id = 0;
  int32_t device_index = 0;
  int32_t device_type = 0;

  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;
};

// A point in a stream. Thread-safe.
class DeviceEvent : public std::enable_shared_from_this<DeviceEvent> {
 public:
  virtual ~DeviceEvent() = default;
  // Blocks the host until the stream has passed it.
  virtual void Await() = 0;
  // Time on the device between `earlier` and this event, which are events of
  // the copy stream that have passed. 0: unknown.
  virtual double SecondsAfter(const DeviceEvent& earlier) const = 0;
  // Not OK: the device has failed for good and the event has no meaning.
  // Waiting for it returns at once.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

class Device {
 public:
  virtual ~Device() = default;

  // Called first on every thread that the feeder starts: makes the device the
  // current device of the thread.
  virtual void EnterThread() {}

  // True: work is done when a call returns, host memory is device memory, and
  // the methods for streams and events are never called.
  virtual bool is_host() const = 0;

  // 64-byte aligned; nullptr when there is no memory. Work of the last owner
  // that is queued on the caller's current stream may still use the memory.
  virtual uint8_t* Allocate(uint64_t bytes) = 0;
  // Gives memory back. Its next owner may use it once the events of `after`
  // have passed. The host does not wait for them.
  virtual void Free(uint8_t* data, uint64_t bytes,
                    absl::Span<const std::shared_ptr<DeviceEvent>> after) = 0;

  // CopyIn and Cast queue on the copy stream. `source` of CopyIn is host memory
  // and must live until an event that is recorded afterwards has passed.
  virtual absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                              uint64_t bytes) = 0;
  // Gives the same bytes as cast.Apply(). `scratch` has CastScratchBytes() and
  // is not used otherwise until the cast is done.
  virtual absl::Status Cast(const TensorCast& cast, const uint8_t* source,
                            uint8_t* target, uint8_t* scratch,
                            uint64_t elements) = 0;
  // 0 for most casts.
  virtual uint64_t CastScratchBytes(const TensorCast& cast,
                                    uint64_t elements) const {
    static_cast<void>(cast);
    static_cast<void>(elements);
    return 0;
  }

  virtual std::shared_ptr<DeviceEvent> RecordCopy() = 0;
  virtual DeviceStream CurrentStream() = 0;
  virtual std::shared_ptr<DeviceEvent> RecordOn(const DeviceStream& stream) = 0;
  virtual void CopyWaits(DeviceEvent& event) = 0;
  virtual void ConsumerWaits(DeviceEvent& event) = 0;
};

// The host as a device: plain memory, and all work is done at once.
std::shared_ptr<Device> NewHostDevice();

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_DEVICE_H_
