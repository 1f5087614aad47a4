// BatchAssembly joins the frames of one call to batches, one batch after the
// other: it checks that headers and frames come in order, copies the payload
// into the slot, and checks the whole batch.
//
// It takes no slot and gives none back: its owner does, between Begin() and
// Want(), and after Drop() or Take(). It knows neither other calls nor the
// time.
//
// The frames are foreign bytes. Every method that returns a Status returns
// DataLoss for frames that do not fit. After that, only Drop() and the position
// of the assembly may be used.
//
// Not thread-safe.
//
//   if (frame.has_header) {
//     MR_RETURN_IF_ERROR(batch.Begin(frame, steps, expect, now));
//     if (no other call has delivered it) batch.Want(&frame, slot, verify);
//   }
//   MR_RETURN_IF_ERROR(batch.Add(frame));
//   if (!batch.whole()) return absl::OkStatus();
//   MR_RETURN_IF_ERROR(batch.Finish());
//   if (batch.wanted()) Deliver(batch.Take());

#ifndef MILLRACE_CLIENT_PREFETCH_BATCH_ASSEMBLY_H_
#define MILLRACE_CLIENT_PREFETCH_BATCH_ASSEMBLY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/prefetch/batch_info.h"
#include "client/prefetch/transport.h"
#include "common/running_digest.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/wire/batch_view.h"
#include "proto/wire/frame_view.h"

namespace millrace::prefetch {

// A whole batch. The payload is in `shared`, memory of the server; null: in
// `slot`.
struct WholeBatch {
  BatchHeader header;
  uint8_t* slot = nullptr;
  std::shared_ptr<void> shared;
};

class BatchAssembly {
 public:
  // A frame with a header begins a batch. DataLoss: the previous batch is not
  // whole, the batch is none of `steps`, or the header does not fit the plan,
  // which `expect` describes except for the position.
  absl::Status Begin(const wire::FrameView& frame, const AskedSteps& steps,
                     wire::BatchExpectation expect, absl::Time now);

  // After Begin(): the batch is needed. Its payload goes to `slot`, which has
  // max_payload_bytes. Null: the frame shares the memory of the whole payload,
  // which is delivered in place. Takes the header out of `frame`. With
  // `verify`, the payload is compared with the digest in the header.
  void Want(wire::FrameView* frame, uint8_t* slot, bool verify);

  // Adds the payload of a frame, the first one included. DataLoss: it does not
  // continue the payload so far.
  absl::Status Add(wire::FrameView& frame);

  bool whole() const { return received_ == payload_bytes_; }

  // Ends a whole batch: the next frame begins another one. DataLoss, if the
  // batch is wanted: the payload does not fit its header, or differs from its
  // digest.
  absl::Status Finish();

  // Moves a wanted batch to the caller. After Finish().
  WholeBatch Take();

  // The batch is not needed any more: later frames of it are not copied.
  // Returns its slot, or null.
  uint8_t* Drop();

  // The frames of a batch are arriving.
  bool begun() const { return begun_; }
  // Position of the last batch that has begun.
  Position position() const { return position_; }
  absl::Time begun_at() const { return begun_at_; }
  // The batch is needed: no other call has delivered it.
  bool wanted() const { return wanted_; }
  // Null: the batch is in shared memory or is not wanted.
  const uint8_t* slot() const { return batch_.slot; }
  // The batch came in memory that the server shares, copied or not.
  bool in_shared() const { return in_shared_; }
  uint64_t received() const { return received_; }

 private:
  void AddToDigest(const wire::FrameView& frame);
  // The payload of a whole batch.
  absl::Span<const uint8_t> Payload() const;

  bool begun_ = false;
  bool wanted_ = false;
  bool in_shared_ = false;
  Position position_;
  absl::Time begun_at_;
  uint64_t payload_bytes_ = 0;
  uint64_t received_ = 0;
  WholeBatch batch_;
  std::unique_ptr<RunningDigest> digest_;  // null: no comparison
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_BATCH_ASSEMBLY_H_
