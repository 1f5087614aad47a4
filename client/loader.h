// DataLoader: Millrace's public header for C++ training programs. It opens a
// pipeline on one or more data servers and yields batches of named tensors on
// a device, in the order of the plan, exactly once each.
//
// What it is not: it does not decode, shuffle or augment (servers do), and it
// starts no process.
//
// One thread calls Next(); Seek(), position(), stats() and Close() may be
// called from any thread. Several loaders may live in one process.
//
//   millrace::DataLoader::Options options;
//   options.endpoint = "data-1:7001,data-2:7001";
//   options.dataset = "photos";
//   options.preset = "imagenet_train";
//   options.batch_size = 256;                        // global
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
#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;  // [rows, sample shape...] on the loader's device
};

// A batch on the device. Its tensors are views of a slot of the loader: the
// slot is used again after the last of them has died and the device has
// finished what was queued until then on
// - the stream that was current when Next() returned the batch,
// - the stream that is current where a tensor dies,
// - and the streams that RecordStream() was told of.
// torch::Tensor::record_stream() does nothing for these tensors: their memory
// does not belong to torch's allocator.
struct Batch {
  Position position;  // of this batch
  uint64_t rows = 0;
  uint64_t local_valid = 0;  // rows of this rank that are samples
  // Rows of the global batch that the plan fills (BatchHeader.global_valid).
  uint64_t global_valid = 0;
  uint64_t first_position = 0;
  // Calls of Seek() before it: tells a batch of the old place from one of the
  // new when another thread than that of Next() seeks.
  uint64_t generation = 0;
  std::vector<NamedTensor> tensors;

  // The tensor of that name; aborts when there is none (see has()).
  const torch::Tensor& tensor(absl::string_view name) const;
  bool has(absl::string_view name) const;

  // Call it when the batch is used on another stream than the one that was
  // current at Next(), while a tensor of the batch lives; that stream has to
  // wait for the one of Next() first. Both must exist until the last tensor of
  // the batch has died. Any thread may call it. Of a batch on the CPU it does
  // nothing.
  void RecordStream(const c10::Stream& stream) const;

  // What RecordStream() calls; the loader's. Null on the CPU.
  std::function<void(const c10::Stream&)> stream_recorder;
};

class DataLoader {
 public:
  struct Options {
    std::string endpoint;  // host:port[,host:port...] or one DNS name:port
    // Either `spec`, or these five.
    std::string dataset;
    std::string preset;
    uint64_t batch_size = 0;  // global
    uint64_t seed = 0;
    // Fields of the dataset that become tensors; empty: all of them. Needed
    // where the preset leaves a field without a fixed shape, as a string is:
    // Open() then fails and names it.
    std::vector<std::string> outputs;
    // A whole pipeline spec; used when it has sources.
    PipelineSpec spec;

    uint32_t rank = 0;
    uint32_t world_size = 1;
    Position start;
    uint64_t epochs = 1;  // 0: without end
    torch::Device device = torch::kCPU;
    // Batches kept ready on the device. At least 1. Copied or transformed
    // tensors lie in a ring of two slots more: the caller may keep that many.
    // On the CPU, small ones that are only cast, as class labels are, lie
    // outside of it: any number of them may be kept.
    uint32_t device_prefetch = 2;
    // On the CPU: compute the device transform ahead, on a thread of the
    // loader's, instead of in Next(). Good when the training leaves cores
    // idle; costs a hand-over per batch otherwise. Devices with streams always
    // work ahead.
    bool prepare_ahead = false;
    // Batches in host memory; see HostLoaderOptions.
    uint32_t window = 0;
    // Batches of a server on this machine in memory that it shares; they are
    // copied once into the slots of this loader. HostLoaderOptions has more.
    SameHost same_host = SameHost::kOff;
    absl::Duration open_timeout = HostLoaderOptions().open_timeout;
    absl::Duration next_timeout = HostLoaderOptions().next_timeout;
    // A step without progress for so long is asked elsewhere.
    absl::Duration step_timeout = HostLoaderOptions().step_timeout;
    // A step that is late and needed soon is asked of a second server; the
    // first answer wins. At most this share of the steps, in the long run; 0:
    // never.
    double hedge_share = HostLoaderOptions().hedge_share;
    // Late is what takes 1.5 times as long as 95 of 100 steps did, or 4 times
    // as long as half of them, and at least this.
    absl::Duration hedge_floor = HostLoaderOptions().hedge_floor;
    // Compare every payload with a digest that its server sends; see
    // HostLoaderOptions.
    bool verify_payload = HostLoaderOptions().verify_payload;
    std::string expected_plan_hash;    // from a checkpoint
    std::string expected_fingerprint;  // from a checkpoint
    // Where this rank writes down which samples it was given in each step
    // (client/audit/audit_log.h): made, or gone on with when it is of the same
    // plan and content; Open() and StartAudit() refuse another job's log with
    // InvalidArgument. In a log of the same plan what comes from `start` on
    // takes the place of what earlier starts were given: as after a restart
    // from a checkpoint, so give a new job, and every rank, a file of its own.
    // A log that cannot be written later, as on a full disk, ends nothing: the
    // loader says so and goes on. Empty: nowhere.
    std::string audit_file;
    // Equal on all ranks of a start of a job, larger at each start: the clock
    // of rank 0, for example. 0: StartAudit() says it.
    uint64_t audit_attempt = 0;
    // To tell what a perfect loader would gain: the first so many batches are
    // kept as copies on the device and repeated from then on, without waiting
    // for data (client/replay_loader.h). What is trained so means nothing. Not
    // with audit_file. 0: off.
    uint64_t replay_batches = 0;
    // Compute TensorSpec.device_transform (uint8 -> normalised float32, NCHW
    // view of channels-last memory; class labels -> int64). Off: tensors as
    // they are on the wire, labels in the smallest type that holds them.
    bool apply_device_transform = true;
  };

  struct Stats {
    HostLoader::Stats host;
    double wait_seconds = 0;  // spent in Next(): the trainer's stall
    // Host time for copying and transforming, on whatever thread: on devices
    // with streams the time to queue the work.
    double copy_seconds = 0;
    // On devices with streams: the time that copies and transforms take there,
    // by the device's clock.
    double device_copy_seconds = 0;
    // Host memory that is page-locked for the device now, by this loader.
    uint64_t pinned_bytes = 0;
    // Given out again: Options::replay_batches.
    uint64_t repeated_batches = 0;
  };

  static absl::StatusOr<std::unique_ptr<DataLoader>> Open(
      const Options& options);

  virtual ~DataLoader() = default;  // closes

  // What the servers said of the plan: tensors, classes, steps per epoch,
  // plan hash, fingerprint.
  virtual const OpenResponse& plan() const = 0;

  // Begins the audit log of Options::audit_file; before the first Next().
  virtual absl::Status StartAudit(uint64_t attempt) = 0;

  // The next batch. OutOfRange: all epochs were delivered. DeadlineExceeded:
  // nothing within next_timeout (names the endpoint, or says that the caller
  // holds all slots). Other errors are final: nothing comes after them until a
  // Seek().
  virtual absl::StatusOr<Batch> Next() = 0;

  // Position after the last batch that Next() returned, or that of a Seek()
  // after it: goes into a checkpoint.
  virtual Position position() const = 0;

  // Goes on at `position`: what is under way and what is ready on the device is
  // dropped, Next() returns that batch next, also one that waits. Costs no Open
  // and no time that grows with the data. Batches that the caller holds stay
  // valid, and their slots count as held. The last epoch stays the one that
  // Options::start and Options::epochs name. Ends a final error, and OutOfRange
  // after all epochs, too: behind a sample that cannot be read the job may go
  // on. InvalidArgument: a step past the end of its epoch, or an epoch past the
  // last; nothing has changed then. Cancelled: closed.
  //
  // In an audit log what is given out after going back takes the place of what
  // was given out from there on before, as after a restart from a checkpoint;
  // steps that are jumped over are missing in it.
  virtual absl::Status Seek(Position position) = 0;

  virtual Stats stats() const = 0;

  // Ends calls and threads. Idempotent. Batches that are still held stay valid.
  virtual void Close() = 0;
};

// One line that says where the time between two looks at stats() went: "waited
// 11 %: decoding on 2 of 6 servers; add servers or cores". How it is found, and
// when it is not: client/diagnosis/wait_verdict.h.
std::string WhereTheTimeWent(const DataLoader::Stats& before,
                             const DataLoader::Stats& after,
                             double elapsed_seconds);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_LOADER_H_
