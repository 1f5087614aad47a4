#include "client/torch/slot_ring.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"

namespace millrace::device {

SlotRing::Lease::~Lease() {
  // The last holder is gone, so no thread adds events. The lock satisfies the
  // annotations, and orders this after the events that other threads added.
  Events events;
  {
    MutexLock lock(mu_);
    events = std::move(after_);
    for (const DeviceStream& stream : streams_) {
      // Recorded now, not when UsedOn() was called, so that it covers all work
      // that was queued there since.
      events.push_back(ring_->device_->RecordOn(stream));
    }
  }
  // A lease whose events were not taken was not written to: the next lease must
  // wait for these events.
  events.insert(events.end(), before_.begin(), before_.end());
  ring_->Return(data_, std::move(events));
}

void SlotRing::Lease::AddEvent(std::shared_ptr<DeviceEvent> event) {
  MutexLock lock(mu_);
  after_.push_back(std::move(event));
}

void SlotRing::Lease::UsedOn(const DeviceStream& stream) {
  MutexLock lock(mu_);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
    streams_.push_back(stream);
  }
}

bool SlotRing::Lease::IsUsedOn(const DeviceStream& stream) {
  MutexLock lock(mu_);
  return std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
}

absl::StatusOr<std::shared_ptr<SlotRing>> SlotRing::Make(
    std::shared_ptr<Device> device, uint32_t slots, uint64_t slot_bytes) {
  // The constructor is private.
  std::shared_ptr<SlotRing> ring(
      new SlotRing(std::move(device), slots, slot_bytes));
  MutexLock lock(ring->mu_);
  for (uint32_t i = 0; i < slots; ++i) {
    uint8_t* data = ring->device_->Allocate(slot_bytes);
    if (data == nullptr) {
      // The destructor of `ring` gives back what was allocated.
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", slots, " batch slots of ",
                       FormatByteSize(slot_bytes),
                       " on the device; use a smaller batch or a smaller "
                       "device_prefetch"));
    }
    ring->free_.push_back({data, {}});
  }
  if (!ring->device_->is_host()) {
    // The allocator of a device returns memory whose last work may still be
    // queued: this is correct on the caller's stream, not on the copy stream.
    std::shared_ptr<DeviceEvent> before =
        ring->device_->RecordOn(ring->device_->CurrentStream());
    for (Free& slot : ring->free_) slot.events.push_back(before);
  }
  return ring;
}

SlotRing::~SlotRing() {
  // Every slot is free: a lease would keep the ring alive.
  MutexLock lock(mu_);
  for (Free& slot : free_) {
    device_->Free(slot.data, slot_bytes_, slot.events);
  }
}

absl::StatusOr<std::shared_ptr<SlotRing::Lease>> SlotRing::Acquire(
    SteadyTime deadline) {
  MutexLock lock(mu_);
  while (free_.empty() && !closed_) {
    // A slot that comes back at the deadline is taken.
    if (!changed_.WaitUntil(lock, deadline) && free_.empty() && !closed_) {
      return absl::DeadlineExceededError(
          absl::StrCat("all ", slots_, " slots are held"));
    }
  }
  if (closed_) return absl::CancelledError("the loader was closed");
  // The slot that was free for the longest time: its events have most likely
  // passed, so the copy stream need not wait.
  Free slot = std::move(free_.front());
  free_.erase(free_.begin());
  return std::shared_ptr<Lease>(
      new Lease(shared_from_this(), slot.data, std::move(slot.events)));
}

std::shared_ptr<void> SlotRing::Hold(std::shared_ptr<Lease> lease) {
  struct Holder {
    explicit Holder(std::shared_ptr<Lease> held) : lease(std::move(held)) {}
    ~Holder() {
      Device& device = *lease->ring_->device_;
      if (device.is_host()) return;
      const DeviceStream current = device.CurrentStream();
      // If the slot is used on that stream, the lease records a later event
      // there. Recording must not throw or block: this is a tensor's
      // destructor.
      if (!lease->IsUsedOn(current)) lease->AddEvent(device.RecordOn(current));
    }
    const std::shared_ptr<Lease> lease;
  };
  return std::make_shared<Holder>(std::move(lease));
}

void SlotRing::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

void SlotRing::Return(uint8_t* data, Events events) {
  MutexLock lock(mu_);
  // Also after Close(): the destructor of the ring frees the memory.
  free_.push_back({data, std::move(events)});
  changed_.NotifyOne();
}

}  // namespace millrace::device
