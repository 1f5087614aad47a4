// LoaderOptions says which batches a loader receives and how: the part that
// HostLoader and DataLoader have in common. Each option is declared, documented
// and checked here; client/flags/loader_flags.h has the command-line flags that
// set them.
//
// Validate() here is the owner of every bound below. The other functions that
// check what a user gives have one part each:
// - FlagSet and the C interface's OptionValues::Set(): the text of a value
//   ("a whole number", "a time above 0"), which a struct cannot hold wrongly.
// - LoaderFlags::Validate(): flags beside each other; names flags.
// - DataLoader::Options::Validate(): the options that only tensors have.
// - TrainerConfig::Validate(): the flags of training. It refuses a wrong
//   --device_prefetch and --repeat_batches before ranks start, as a mistake on
//   the command line.
// - receive::ParseEndpoint(): the text of `endpoint`.
//
// What it is not: it says nothing of devices and tensors (DataLoader::Options),
// nor of the memory of received batches (HostLoaderOptions).
//
// Plain data.
//
//   LoaderOptions options;
//   options.endpoint = "data-1:7001,data-2:7001";
//   options.spec = spec;
//   MR_RETURN_IF_ERROR(options.Validate());

#ifndef MILLRACE_CLIENT_PREFETCH_LOADER_OPTIONS_H_
#define MILLRACE_CLIENT_PREFETCH_LOADER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/prefetch/batch_info.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// Whether a server on the same machine passes batches in memory that it shares
// with this process, instead of over the network (docs/operations.md).
enum class SameHost {
  kOff,
  // Shared memory with each server that can share it. The log says once for a
  // server why it cannot.
  kAuto,
  // A server that cannot share memory is not used. A server that stops sharing
  // because others need the memory sends its batches over the network until it
  // shares memory again.
  kRequire,
};

struct LoaderOptions {
  // Limits of `window` unless it is 0, in batches.
  static constexpr uint32_t kMinWindow = 2;
  static constexpr uint32_t kMaxWindow = 1 << 16;
  // Upper limit of an adaptive window, and so of `initial_window`.
  static constexpr uint32_t kMaxAdaptiveWindow = 256;

  // Data servers: "host:port", several separated by commas, or one DNS name
  // with port that resolves to several addresses. Required.
  std::string endpoint;
  // The pipeline.
  PipelineSpec spec;
  // This process's part of each global batch: part `rank` of `world_size`
  // equal parts.
  uint32_t rank = 0;
  uint32_t world_size = 1;
  // Position of the first batch.
  Position start;
  // Number of epochs to deliver, counted from start.epoch. 0: no end.
  uint64_t epochs = 1;

  // Max number of batches that are requested and not yet consumed, over all
  // servers. N: fixed, and batches that the consumer holds count. 0: the window
  // adapts to measurements (window_tuner.h) within window_bytes; batches that
  // the consumer holds do not count, but the window and these batches together
  // stay within what fits into window_bytes, and that is 4 to 256 batches.
  // Hedged requests need memory for 1 more batch for each 8 of the largest
  // window, at most 4.
  uint32_t window = 0;
  // Upper bound of an adaptive window, in bytes of payload.
  uint64_t window_bytes = 256 << 20;
  // First size of an adaptive window, 2 to 256 batches; for measurements. It is
  // reduced to what fits into window_bytes. 0: what fits into 32 MiB, at least
  // 16 and at most 64, within window_bytes. Not together with a fixed window.
  uint32_t initial_window = 0;
  SameHost same_host = SameHost::kOff;

  // Max time that Open waits for the first server to answer.
  absl::Duration open_timeout = absl::Seconds(5);
  // Max time that Next() waits for a batch before it fails with
  // DeadlineExceeded.
  absl::Duration next_timeout = absl::Minutes(5);
  // A step that makes no progress for this time is requested from another
  // server.
  absl::Duration step_timeout = absl::Seconds(15);
  // Max share of the steps, in the long run, that are requested from a second
  // server because they are late and needed soon; the first answer is used. 0:
  // no hedging.
  double hedge_share = 0.05;
  // Minimum time before a step counts as late. A step is late after 1.5 times
  // the 95th percentile or 4 times the median of recent steps, whichever is
  // shorter, but never before this time. 0: no minimum.
  absl::Duration hedge_floor = absl::Milliseconds(20);

  // Compare each payload with a digest (XXH3-64) that its server sends: TCP's
  // checksum misses some flipped bits. A payload that differs is requested
  // again once; if it differs again, Next() returns DataLoss. Off: saves one
  // hash over the payload, and a damaged payload is delivered.
  bool verify_payload = true;
  // Open fails with FailedPrecondition when the plan or the data of the servers
  // differ, for example from those of a checkpoint. Empty: any plan, any data.
  std::string expected_plan_hash;
  std::string expected_fingerprint;

  // InvalidArgument: names the option, its value and the valid values.
  absl::Status Validate() const;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_LOADER_OPTIONS_H_
