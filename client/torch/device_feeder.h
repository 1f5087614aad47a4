// DeviceFeeder turns host batches into batches on a device: it copies them on
// the device's copy stream, computes the transforms that the plan leaves to the
// client, and describes the result as named tensors in slots. On the host it
// copies nothing: tensors lie in the slots that they were received into.
// Transformed tensors lie in a slot of the ring; small ones, such as class
// labels, have their own memory, so that the consumer may keep any number.
//
// What it is not: it knows no libtorch. DataLoader (client/loader.h) makes
// tensors from its batches.
//
// Threads: one consumer calls Next(). Any thread may call Seek(), Close(),
// stats() and position(). With Options::thread, the feeder owns a thread that
// prepares batches ahead. For a device with streams it owns another thread,
// which gives received slots back when their copy is done. Both end in Close().
// A batch stays valid after Close() and after the feeder is destroyed.
//
//   MR_ASSIGN_OR_RETURN(auto feeder, DeviceFeeder::Start(std::move(host),
//                                                        device, options));
//   while (true) {
//     MR_ASSIGN_OR_RETURN(DeviceBatch batch, feeder->Next());
//     ... when batch.tensors[i].hold dies, its memory is reused ...
//   }

#ifndef MILLRACE_CLIENT_TORCH_DEVICE_FEEDER_H_
#define MILLRACE_CLIENT_TORCH_DEVICE_FEEDER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/audit/audit_record.h"
#include "client/prefetch/host_loader.h"
#include "client/torch/device.h"
#include "client/torch/slot_ring.h"
#include "common/mutex.h"
#include "proto/tensor_cast.h"

namespace millrace::device {

struct DeviceTensor {
  std::string name;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  uint8_t* data = nullptr;
  std::shared_ptr<void> hold;  // keeps the memory
};

struct DeviceBatch : BatchInfo {
  std::vector<DeviceTensor> tensors;
  std::optional<audit::AuditRecord> audit;  // with Options::audit
  // The slot on the device; expired after the last tensor, and on the host.
  std::weak_ptr<SlotRing::Lease> slot;
};

class DeviceFeeder {
 public:
  // DataLoader::Options::Validate() has checked them.
  struct Options {
    // Max number of batches that are ready ahead of the consumer, at least
    // 1. The ring has two slots more: for the consumer's batch and for one in
    // preparation.
    uint32_t prefetch = 2;
    // Prepare batches ahead on a thread of the feeder. Off: in Next(). Devices
    // with streams always have the thread.
    bool thread = false;
    // Compute TensorSpec.device_transform. Off: tensors as on the wire.
    bool apply_transform = true;
    // Number of ranks, at least 1: a batch has at most batch_size / world_size
    // rows.
    uint32_t world_size = 1;
    // Max time that Next() waits for a batch.
    absl::Duration next_timeout = absl::Minutes(5);
    // Fill in DeviceBatch::audit.
    bool audit = false;
  };

  struct Stats {
    double wait_seconds = 0;     // spent in Next(), the transform included
    double prepare_seconds = 0;  // copying and transforming, on any thread
    // On devices with streams: time of copies and transforms on the device,
    // without their wait for a slot.
    double device_copy_seconds = 0;
  };

  // The feeder owns `host`. Its Seek() was not called before, and only the
  // feeder calls it. InvalidArgument, Unimplemented: the transforms of the
  // plan. ResourceExhausted: no memory for the slots.
  static absl::StatusOr<std::unique_ptr<DeviceFeeder>> Start(
      std::unique_ptr<HostLoader> host, std::shared_ptr<Device> device,
      const Options& options);
  ~DeviceFeeder();

  // As HostLoader::Next(). DeadlineExceeded "all N slots are held" also when
  // the caller holds all slots of the ring. Work that the caller queues on its
  // current stream after this sees the batch.
  absl::StatusOr<DeviceBatch> Next();

  // Position after the last batch that Next() returned, or of a later Seek().
  Position position() const;

  // As HostLoader::Seek(). Batches in preparation and ready batches are
  // dropped, and Next() returns the batch at `position` next, also a Next()
  // that waits. Does not wait for the device: slots and received memory of
  // dropped batches are reused after their copies. Ends a final error, and
  // OutOfRange after all epochs. InvalidArgument, Cancelled: nothing has
  // changed.
  absl::Status Seek(Position position);

  Stats stats() const;
  const HostLoader& host() const { return *host_; }
  void Close();

 private:
  // How one tensor of the plan becomes a DeviceTensor.
  struct Recipe {
    std::optional<TensorCast> cast;
    uint64_t slot_offset = 0;     // of the transformed tensor in a slot
    uint64_t scratch_offset = 0;  // of the device's scratch memory for it
    uint64_t rows = 0;            // max rows
    // The transformed tensor has its own memory.
    bool own_memory = false;
    // [H, W, C] in memory, seen as [C, H, W].
    bool channels_first = false;
  };
  struct Prepared {
    DeviceBatch batch;
    std::shared_ptr<DeviceEvent> ready;     // null on the host
    std::shared_ptr<SlotRing::Lease> slot;  // null on the host
  };
  // A batch or an error, and its generation.
  struct Produced {
    absl::StatusOr<Prepared> prepared;
    uint64_t generation = 0;
  };
  struct Copied {
    std::shared_ptr<DeviceEvent> begun;
    std::shared_ptr<DeviceEvent> done;
    std::shared_ptr<void> lease;
  };

  DeviceFeeder(std::unique_ptr<HostLoader> host, std::shared_ptr<Device> device,
               const Options& options);
  absl::Status Plan();

  // One batch; waits for a slot until `slot_deadline`.
  Produced Produce(SteadyTime slot_deadline);
  absl::StatusOr<Prepared> Prepare(HostBatch host,
                                   std::shared_ptr<SlotRing::Lease> slot);
  // The next batch for the consumer: from the thread, or prepared here.
  absl::StatusOr<Prepared> Await();
  absl::StatusOr<Prepared> ProduceNow();
  // The last step before a batch leaves the feeder: gives its tensors holds on
  // their slot and advances the position.
  Prepared GiveOut(Prepared prepared) MR_REQUIRES(mu_);
  // Drops a batch: its slot is reused after its copy.
  static void Drop(Prepared prepared);
  // `position` in the form of position(): the end of an epoch is step 0 of the
  // next one.
  Position Normal(Position position) const;
  absl::Status AllSlotsAreHeld() const;
  // Memory of the device that its last owner frees; null: no memory.
  std::shared_ptr<uint8_t> AllocateOwn(uint64_t bytes) const;
  void ProduceLoop();
  void ReleaseLoop();

  const std::unique_ptr<HostLoader> host_;
  const std::shared_ptr<Device> device_;
  const Options options_;
  std::vector<Recipe> recipes_;     // one for each tensor of the plan
  uint64_t payload_bytes_ = 0;      // of a slot, for the copied payload
  std::shared_ptr<SlotRing> ring_;  // null: nothing is copied or transformed

  mutable Mutex mu_;
  CondVar changed_;
  // Close() was called. Never cleared.
  bool closed_ MR_GUARDED_BY(mu_) = false;
  // The producer waits for a slot, which the consumer may hold: Await() then
  // watches the deadline. False without a ring.
  bool waiting_for_slot_ MR_GUARDED_BY(mu_) = false;
  // The producer has ended, so nothing is added to copies_. Never cleared.
  bool copies_ended_ MR_GUARDED_BY(mu_) = false;
  // Equal to the generation of host_: both change together under mu_.
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
  // Not OK: a final error, which Next() returns until a Seek().
  absl::Status final_ MR_GUARDED_BY(mu_);
  // Batches, and errors that are not final, in the order of the host loader.
  std::deque<absl::StatusOr<Prepared>> ready_ MR_GUARDED_BY(mu_);
  // Copies in flight, in the order of the copy stream.
  std::deque<Copied> copies_ MR_GUARDED_BY(mu_);
  Position position_ MR_GUARDED_BY(mu_);
  Stats stats_ MR_GUARDED_BY(mu_);

  Mutex join_mu_;  // held while threads are joined
  std::thread producer_ MR_GUARDED_BY(join_mu_);
  std::thread releaser_ MR_GUARDED_BY(join_mu_);
};

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_DEVICE_FEEDER_H_
