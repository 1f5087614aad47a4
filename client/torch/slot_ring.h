// SlotRing is a fixed number of equal pieces of device memory that are reused.
// A slot comes back when the last hold on it has died. The next lease of the
// slot gets the events of the work that may still read it: one on each stream
// that the slot was used on, and one on the stream that was current where a
// hold died.
//
// What it is not: it copies nothing and waits for no device.
//
// Thread-safe. Owns no thread. A shared_ptr owns the ring, and every lease
// shares that ownership: memory that a tensor still uses outlives the loader.
//
//   MR_ASSIGN_OR_RETURN(auto lease, ring->Acquire(deadline));
//   for (auto& event : lease->TakeEvents()) device->CopyWaits(*event);
//   ... fill lease->data() ...
//   auto hold = SlotRing::Hold(lease);   // one for each tensor

#ifndef MILLRACE_CLIENT_TORCH_SLOT_RING_H_
#define MILLRACE_CLIENT_TORCH_SLOT_RING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/torch/device.h"
#include "common/mutex.h"

namespace millrace::device {

class SlotRing : public std::enable_shared_from_this<SlotRing> {
 public:
  using Events = std::vector<std::shared_ptr<DeviceEvent>>;

  // A slot that is in use; gives it back when destroyed.
  class Lease {
   public:
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    uint8_t* data() const { return data_; }
    // Events that must have passed before the slot is written.
    Events TakeEvents() { return std::move(before_); }
    // Adds an event that the next lease of the slot must wait for.
    void AddEvent(std::shared_ptr<DeviceEvent> event);
    // Work that reads the slot is queued on `stream`, or will be. The next
    // lease also waits for all work that is queued there when the slot comes
    // back. The stream must exist until then.
    void UsedOn(const DeviceStream& stream);

   private:
    friend class SlotRing;
    Lease(std::shared_ptr<SlotRing> ring, uint8_t* data, Events before)
        : ring_(std::move(ring)), data_(data), before_(std::move(before)) {}

    const std::shared_ptr<SlotRing> ring_;
    uint8_t* const data_;
    // Used by the owner of the lease only: by TakeEvents() before the lease is
    // shared with tensors, and by the destructor.
    Events before_;
    bool IsUsedOn(const DeviceStream& stream);

    Mutex mu_;
    // after_: events that tensors added when they died. streams_: the streams
    // on which the slot is used until the lease ends. Guarded, because tensors
    // die on any thread.
    Events after_ MR_GUARDED_BY(mu_);
    std::vector<DeviceStream> streams_ MR_GUARDED_BY(mu_);  // each once
  };

  // ResourceExhausted: the device has no memory for the slots. The first use of
  // each slot waits for the work that is queued on the caller's current stream.
  static absl::StatusOr<std::shared_ptr<SlotRing>> Make(
      std::shared_ptr<Device> device, uint32_t slots, uint64_t slot_bytes);
  ~SlotRing();

  // Waits for a free slot. DeadlineExceeded: all are held. Cancelled: closed.
  absl::StatusOr<std::shared_ptr<Lease>> Acquire(SteadyTime deadline);

  // A tensor keeps a hold while it lives. When the hold dies, an event on the
  // stream that is then current on that thread joins the slot's events, unless
  // the slot is UsedOn() that stream: then a later event covers it.
  static std::shared_ptr<void> Hold(std::shared_ptr<Lease> lease);

  // Ends every Acquire(). Leases stay valid.
  void Close();

  uint32_t slots() const { return slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  // A slot without a lease. `events` may not have passed yet: then the slot is
  // free for the host and not for the device.
  struct Free {
    uint8_t* data;
    Events events;
  };

  SlotRing(std::shared_ptr<Device> device, uint32_t slots, uint64_t slot_bytes)
      : device_(std::move(device)), slots_(slots), slot_bytes_(slot_bytes) {}
  void Return(uint8_t* data, Events events);

  const std::shared_ptr<Device> device_;
  const uint32_t slots_;
  const uint64_t slot_bytes_;

  Mutex mu_;
  CondVar changed_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  // First in, first out.
  std::vector<Free> free_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_SLOT_RING_H_
