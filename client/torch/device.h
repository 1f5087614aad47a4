// Device is what the feeder needs of the machine that computes: memory, a copy
// stream of its own, and events that order it with the streams of the program.
// It knows neither libtorch nor CUDA, so that the rules of slots and lifetimes
// are tested against a fake that is slow on purpose, under ThreadSanitizer.
//
// CopyIn, Cast and the events of the copy stream are called by one thread
// (the feeder's). CurrentStream and RecordOn may be called from any thread: the
// former names the stream that is current there.
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

namespace millrace {

// Names a stream of the program's, as c10::StreamData3 does. It must exist for
// as long as it is named.
struct DeviceStream {
  int64_t id = 0;
  int32_t device_index = 0;
  int32_t device_type = 0;

  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;
};

// A place in a stream. Thread-safe.
class DeviceEvent : public std::enable_shared_from_this<DeviceEvent> {
 public:
  virtual ~DeviceEvent() = default;
  // Blocks the host until the stream has passed it.
  virtual void Await() = 0;
  // What passed on the device between `earlier` and this one, both events of
  // the copy stream that have passed. 0 when it cannot be told.
  virtual double SecondsAfter(const DeviceEvent& earlier) const = 0;
  // Not OK: the device has failed for good and the event stands for nothing.
  // Waiting for such a one returns at once.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

class Device {
 public:
  virtual ~Device() = default;

  // Called first on every thread that the feeder starts: makes the device the
  // thread's own.
  virtual void EnterThread() {}

  // True: work is done when the call returns, host memory is device memory,
  // and the functions of streams and events are never called.
  virtual bool is_host() const = 0;

  // 64-byte aligned, or nullptr when there is no room. What is queued on the
  // caller's current stream may still be using the memory, as its last owner.
  virtual uint8_t* Allocate(uint64_t bytes) = 0;
  // Gives memory back: its next owner may use it when the events of `after`
  // have passed. The host does not wait for them.
  virtual void Free(uint8_t* data, uint64_t bytes,
                    absl::Span<const std::shared_ptr<DeviceEvent>> after) = 0;

  // Both queue on the copy stream. `source` of CopyIn is host memory and must
  // live until an event that is recorded afterwards has passed.
  virtual absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                              uint64_t bytes) = 0;
  // The same bytes as cast.Apply() makes. `scratch` has CastScratchBytes() and
  // is not used by others until the cast is done.
  virtual absl::Status Cast(const TensorCast& cast, const uint8_t* source,
                            uint8_t* target, uint8_t* scratch,
                            uint64_t elements) = 0;
  // 0 for most.
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

// The host as a device: plain memory, everything at once.
std::shared_ptr<Device> NewHostDevice();

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_DEVICE_H_
