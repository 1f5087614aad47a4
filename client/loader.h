// DataLoader is Millrace's public header for C++ training programs. It opens a
// pipeline on data servers and returns batches of named tensors on a device, in
// the order of the plan, each batch exactly once.
//
// What it is not: it does not decode, shuffle or augment (the servers do), and
// it starts no process.
//
// Threads: one thread calls Next(). Any thread may call Seek(), position(),
// stats() and Close(). A process may have several loaders.
//
//   millrace::DataLoader::Options options;
//   options.endpoint = "data-1:7001,data-2:7001";
//   options.dataset = "photos";
//   options.preset = "imagenet_train";
//   options.batch_size = 256;                        // of all ranks together
//   options.rank = rank; options.world_size = world;
//   options.device = torch::kCUDA;
//   auto loader = millrace::DataLoader::Open(options);   // absl::StatusOr
//   while (true) {
//     auto batch = (*loader)->Next();
//     if (absl::IsOutOfRange(batch.status())) break;  // all epochs delivered
//     if (!batch.ok()) return batch.status();
//     train(batch->tensor("image"), batch->tensor("label"));
//   }

#ifndef MILLRACE_CLIENT_LOADER_H_
#define MILLRACE_CLIENT_LOADER_H_

#include <c10/core/Stream.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/prefetch/batch_info.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/loader_options.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;  // [rows, sample shape...] on the loader's device
};

// A batch on the device, with its position and row counts (batch.position,
// batch.rows, ... are those of BatchInfo).
//
// The tensors are views of a slot of the loader. The loader reuses the slot
// when the last of these tensors is destroyed and the device has finished the
// work that was queued before that on
// - the stream that was current when Next() returned the batch,
// - the stream that is current where a tensor is destroyed,
// - and the streams that RecordStream() was called with.
// torch::Tensor::record_stream() has no effect on these tensors, because their
// memory does not belong to libtorch's allocator.
struct Batch : BatchInfo {
  std::vector<NamedTensor> tensors;

  // The tensor with this name. Ends the program when there is none; see has().
  const torch::Tensor& tensor(absl::string_view name) const;
  bool has(absl::string_view name) const;

  // Call this when another stream than the current stream of Next() uses the
  // batch, while a tensor of the batch lives. That stream must first wait for
  // the stream of Next(). Both streams must exist until the last tensor of the
  // batch is destroyed. Any thread may call it. No effect on the CPU.
  void RecordStream(const c10::Stream& stream) const;

  // Set by the loader, called by RecordStream(). Null on the CPU.
  std::function<void(const c10::Stream&)> stream_recorder;
};

class DataLoader {
 public:
  // endpoint, rank, world_size, start, epochs, timeouts and the other options
  // of receiving are those of LoaderOptions (client/prefetch/loader_options.h).
  struct Options : LoaderOptions {
    // The pipeline: either LoaderOptions::spec with its sources, or the next
    // five options.
    std::string dataset;
    std::string preset;
    uint64_t batch_size = 0;  // samples of a global batch, over all ranks
    uint64_t seed = 0;
    // Fields of the dataset that become tensors. Empty: all fields. Open()
    // fails and names a field when the preset gives it no fixed shape, as for
    // strings: then list the other fields here.
    std::vector<std::string> outputs;

    torch::Device device = torch::kCPU;
    // Batches kept ready on the device, at least 1. Copied and transformed
    // tensors lie in a ring of device_prefetch + 2 slots, so the caller may
    // hold two batches. On the CPU, small tensors that are only cast, such as
    // class labels, have their own memory: any number of them may be held.
    uint32_t device_prefetch = 2;
    // On the CPU: compute the device transform ahead, on a thread of the
    // loader, and not in Next(). Good when training leaves cores idle;
    // otherwise it costs one hand-over between threads per batch. Devices with
    // streams always work ahead.
    bool prepare_ahead = false;
    // Compute TensorSpec.device_transform: uint8 to normalised float32 (an NCHW
    // view of channels-last memory), class labels to int64. Off: tensors have
    // the type and layout of the wire, labels the smallest type that holds
    // them.
    bool apply_device_transform = true;

    // File in which this rank records the samples of each step
    // (client/audit/audit_log.h). Empty: no audit log. The file is created, or
    // continued when it is a log of the same plan and content; Open() and
    // StartAudit() refuse the log of another job with InvalidArgument. In a
    // continued log, the records from `start` on replace those of earlier
    // starts, as after a restart from a checkpoint. Give each job and each rank
    // a file of its own. A write error, such as a full disk, ends only the log:
    // the loader logs the error and continues.
    std::string audit_file;
    // Number of this start of the job: equal on all ranks, larger at each
    // start, for example the clock of rank 0. 0: StartAudit() gives it.
    uint64_t audit_attempt = 0;
    // Number of batches to repeat, for measuring what a perfect loader would
    // gain: the loader keeps copies of the first batches on the device and
    // repeats them without waiting for data (client/repeat_loader.h). A model
    // that is trained this way is meaningless. Not together with audit_file. 0:
    // off.
    uint64_t repeat_batches = 0;
    // Former name of repeat_batches; counts while that is 0.
    uint64_t replay_batches = 0;

    // InvalidArgument: names the option, its value and the valid values.
    absl::Status Validate() const;
  };

  // Counters since Open().
  struct Stats {
    HostLoader::Stats host;
    double wait_seconds = 0;  // in Next(): the time that training was blocked
    // Host time for copying and transforming, on any thread. On devices with
    // streams: for queueing that work.
    double copy_seconds = 0;
    // On devices with streams: time of copies and transforms, by the clock of
    // the device.
    double device_copy_seconds = 0;
    // Host memory of this loader that is page-locked for the device now.
    uint64_t pinned_bytes = 0;
    // Batches that were repeats (Options::repeat_batches).
    uint64_t repeated_batches = 0;
  };

  // Blocks until a server has opened the plan, for open_timeout at most.
  // docs/client.md lists the errors and what to do.
  static absl::StatusOr<std::unique_ptr<DataLoader>> Open(
      const Options& options);

  virtual ~DataLoader() = default;  // closes

  // What the servers answered to Open(): tensors, classes, steps per epoch,
  // plan hash, fingerprint.
  virtual const OpenResponse& plan() const = 0;

  // Begins the audit log of Options::audit_file. Call it before the first
  // Next().
  virtual absl::Status StartAudit(uint64_t attempt) = 0;

  // The next batch.
  // - OutOfRange: all epochs were delivered.
  // - DeadlineExceeded: no batch within next_timeout; names the endpoint, or
  //   says that the caller holds all slots. Next() may be called again.
  // - Unavailable: as DeadlineExceeded, and no server can be reached.
  // - Cancelled: closed.
  // - Any other error is final: Next() repeats it until a Seek().
  virtual absl::StatusOr<Batch> Next() = 0;

  // Position after the last batch that Next() returned, or of a later Seek().
  // Save it in a checkpoint.
  virtual Position position() const = 0;

  // Continues at `position`: Next() returns that batch next, and so does a
  // Next() that is waiting. Batches that are ready or requested are dropped; no
  // Open() is needed, and the cost does not grow with the data. Batches that
  // the caller holds stay valid, and their slots count as held. The last epoch
  // remains the one that Options::start and Options::epochs give. Seek() ends
  // a final error, and OutOfRange after all epochs: a job can continue after a
  // sample that cannot be decoded.
  // - InvalidArgument: a step past the end of its epoch, or an epoch past the
  //   last epoch. Nothing has changed.
  // - Cancelled: closed.
  //
  // In an audit log, batches after a Seek() backwards replace the records from
  // that position on, as after a restart from a checkpoint. Steps that a Seek()
  // skips are missing in the log.
  virtual absl::Status Seek(Position position) = 0;

  virtual Stats stats() const = 0;

  // Ends all calls and joins all threads. Idempotent. Batches that the caller
  // holds stay valid.
  virtual void Close() = 0;
};

// One line that says where the time between two stats() went: "waited 11 %:
// decoding on 2 of 6 servers; add servers or cores".
// client/diagnosis/wait_verdict.h has the rules.
std::string WhereTheTimeWent(const DataLoader::Stats& before,
                             const DataLoader::Stats& after,
                             double elapsed_seconds);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_LOADER_H_
