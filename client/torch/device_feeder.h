// DeviceFeeder turns host batches into batches on a device: it copies them in
// on the device's copy stream, computes the transforms that the plan leaves to
// the client, and describes the result as named tensors in slots. On the host
// nothing is copied: tensors lie in the slots that they were received into,
// and only transformed ones in a slot of the ring, or, where they are small,
// in memory of their own: cast class labels may be kept for as long as
// anybody likes.
//
// It knows no libtorch: DataLoader (client/loader.h) makes tensors of what it
// gives out.
//
// One consumer calls Next(); Seek(), Close(), stats() and position() may be
// called from any thread. With Options::thread it owns one thread that prepares
// batches ahead, and for a device with streams another one that gives received
// slots back when their copy is done; both end in Close(). A batch that was
// given out stays valid after Close and after the feeder itself.
//
//   MR_ASSIGN_OR_RETURN(auto feeder, DeviceFeeder::Start(std::move(host),
//                                                        device, options));
//   while (true) {
//     MR_ASSIGN_OR_RETURN(DeviceBatch batch, feeder->Next());
//     ... when batch.tensors[i].hold dies, its memory is used again ...
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

namespace millrace {

struct DeviceTensor {
  std::string name;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  uint8_t* data = nullptr;
  std::shared_ptr<void> hold;  // the memory is good while it lives
};

struct DeviceBatch {
  Position position;
  uint64_t rows = 0;
  uint64_t local_valid = 0;
  uint64_t global_valid = 0;
  uint64_t first_position = 0;
  std::vector<DeviceTensor> tensors;
  std::optional<AuditRecord> audit;  // Options::audit
  // Of the device that the tensors lie on; expired with the last of them, and
  // on the host.
  std::weak_ptr<SlotRing::Lease> slot;
  uint64_t generation = 0;  // calls of Seek() before it
};

class DeviceFeeder {
 public:
  struct Options {
    // Batches that may be ready ahead of the consumer. The ring has two slots
    // more: the consumer's batch and one that is being prepared.
    uint32_t prefetch = 2;
    // Prepare ahead on a thread of the feeder's. Off: in Next(). Devices with
    // streams always have the thread.
    bool thread = false;
    // Compute TensorSpec.device_transform; off: tensors as they are on the
    // wire.
    bool apply_transform = true;
    // Ranks of the plan: a batch has at most batch_size / world_size rows.
    uint32_t world_size = 1;
    // Next() without a batch for so long fails.
    absl::Duration next_timeout = absl::Minutes(5);
    // Say of each batch which samples it holds.
    bool audit = false;

    absl::Status Validate() const;
  };

  struct Stats {
    double wait_seconds = 0;     // spent in Next(), the transform included
    double prepare_seconds = 0;  // copying and transforming, on any thread
    // Of devices with streams: what copies and transforms take there, without
    // their wait for a slot.
    double device_copy_seconds = 0;
  };

  // `host` is the feeder's from here on: its Seek() was not called before, and
  // only the feeder calls it. InvalidArgument, Unimplemented: transforms of the
  // plan. ResourceExhausted: no room for the slots.
  static absl::StatusOr<std::unique_ptr<DeviceFeeder>> Start(
      std::unique_ptr<HostLoader> host, std::shared_ptr<Device> device,
      const Options& options);
  ~DeviceFeeder();

  // As HostLoader::Next(); DeadlineExceeded "all N slots are held" also when
  // it is the ring's slots that the caller keeps. Work that the caller queues
  // on its current stream afterwards sees the batch.
  absl::StatusOr<DeviceBatch> Next();

  // Position after the last batch that Next() gave out, or that of a Seek()
  // after it.
  Position position() const;

  // As HostLoader::Seek(): what is being prepared and what is ready on the
  // device is dropped, Next() gives out that batch next, also one that waits.
  // Waits for no work of the device: slots and received memory of what is
  // dropped are used again behind its copies. Ends a final error, also that all
  // epochs were delivered. InvalidArgument, Cancelled: nothing has changed.
  absl::Status Seek(Position position);

  Stats stats() const;
  const HostLoader& host() const { return *host_; }
  void Close();

 private:
  // How one tensor of the plan is given out.
  struct Recipe {
    std::optional<TensorCast> cast;
    uint64_t slot_offset = 0;     // of the transformed tensor in a slot
    uint64_t scratch_offset = 0;  // of the device's scratch for it
    uint64_t rows = 0;            // that there is room for
    // The transformed tensor lies in no slot.
    bool own_memory = false;
    // [H, W, C] in memory, given out as [C, H, W].
    bool channels_first = false;
  };
  struct Prepared {
    DeviceBatch batch;
    std::shared_ptr<DeviceEvent> ready;     // null on the host
    std::shared_ptr<SlotRing::Lease> slot;  // null on the host
  };
  // A batch or an error, and which Seek() it belongs to.
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

  // One batch; waits for a slot until `deadline`.
  Produced Produce(SteadyTime slot_deadline);
  absl::StatusOr<Prepared> Prepare(HostBatch host,
                                   std::shared_ptr<SlotRing::Lease> slot);
  // The next batch for the consumer, of the thread's or made here.
  absl::StatusOr<Prepared> Await();
  absl::StatusOr<Prepared> ProduceNow();
  // Out of the hands of the feeder: gives `prepared`'s tensors holds on their
  // slot and counts the batch as given out.
  Prepared GiveOut(Prepared prepared) MR_REQUIRES(mu_);
  // A batch that is not handed out: its slot is used again behind its copy.
  static void Drop(Prepared prepared);
  // `position` as position() names it.
  Position Normal(Position position) const;
  absl::Status AllSlotsAreHeld() const;
  // Memory of the device that is freed with its last owner; null: there is
  // none.
  std::shared_ptr<uint8_t> AllocateOwn(uint64_t bytes) const;
  void ProduceLoop();
  void ReleaseLoop();

  const std::unique_ptr<HostLoader> host_;
  const std::shared_ptr<Device> device_;
  const Options options_;
  std::vector<Recipe> recipes_;     // one a tensor of the plan
  uint64_t payload_bytes_ = 0;      // of a slot, for the copied payload
  std::shared_ptr<SlotRing> ring_;  // null: nothing is copied or transformed

  mutable Mutex mu_;
  CondVar changed_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  bool waiting_for_slot_ MR_GUARDED_BY(mu_) = false;
  bool copies_ended_ MR_GUARDED_BY(mu_) = false;
  // As HostBatch::generation: both change together under mu_.
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
  // Not OK: there is nothing more until a Seek().
  absl::Status final_ MR_GUARDED_BY(mu_);
  std::deque<absl::StatusOr<Prepared>> ready_ MR_GUARDED_BY(mu_);
  std::deque<Copied> copies_ MR_GUARDED_BY(mu_);
  Position position_ MR_GUARDED_BY(mu_);
  Stats stats_ MR_GUARDED_BY(mu_);

  Mutex join_mu_;  // held while threads are joined
  std::thread producer_ MR_GUARDED_BY(join_mu_);
  std::thread releaser_ MR_GUARDED_BY(join_mu_);
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_DEVICE_FEEDER_H_
