// BatchAssembly puts the frames of one call together into batches, one batch
// after the other: it checks that headers and frames come in order, copies the
// payload to where it belongs, and checks a batch that is whole.
//
// It takes no slot and gives none back: its owner does, between Begin() and
// Want(), and after Drop() or Take(). It knows neither other calls nor time.
//
// The frames are foreign bytes. Every function that returns a Status returns
// DataLoss for what does not fit; the assembly is then of no more use, but for
// Drop() and for saying which batch it was.
//
// Not thread-safe.
//
//   if (frame.has_header) {
//     MR_RETURN_IF_ERROR(batch.Begin(frame, steps, expect, now));
//     if (nobody else has brought it) batch.Want(&frame, slot, verify);
//   }
//   MR_RETURN_IF_ERROR(batch.Add(frame));
//   if (!batch.whole()) return absl::OkStatus();
//   MR_RETURN_IF_ERROR(batch.Finish());
//   if (batch.wanted()) HandOut(batch.Take());

#ifndef MILLRACE_CLIENT_PREFETCH_BATCH_ASSEMBLY_H_
#define MILLRACE_CLIENT_PREFETCH_BATCH_ASSEMBLY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"
#include "common/running_digest.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/wire/batch_view.h"
#include "proto/wire/frame_view.h"

namespace millrace {

// A whole batch. The payload lies in `shared`, memory of the server, or in
// `slot` where that is null.
struct WholeBatch {
  BatchHeader header;
  uint8_t* slot = nullptr;
  std::shared_ptr<void> shared;
};

class BatchAssembly {
 public:
  // A frame with a header begins a batch. DataLoss: the one before is not
  // whole, it is none of `steps`, or the header does not fit the plan, which
  // `expect` describes but for the position.
  absl::Status Begin(const FrameView& frame, const AskedSteps& steps,
                     BatchExpectation expect, absl::Time now);

  // After Begin(): the batch is needed. Its payload goes to `slot`, which holds
  // max_payload_bytes. Null: the frame shares the memory of all of it, which is
  // handed out where it lies. Takes the header out of `frame`. With `verify`
  // the payload is compared with the digest of its header.
  void Want(FrameView* frame, uint8_t* slot, bool verify);

  // The payload of any frame, the first one included. DataLoss: it does not
  // follow what was there before.
  absl::Status Add(FrameView& frame);

  bool whole() const { return received_ == payload_bytes_; }

  // Ends a batch that is whole: the next frame begins another. DataLoss, where
  // it is wanted: the payload does not fit its header, or differs from its
  // digest.
  absl::Status Finish();

  // A wanted batch goes to the caller. After Finish().
  WholeBatch Take();

  // What has come and what may come of the batch is of no use. Returns the slot
  // that it was to fill, or null.
  uint8_t* Drop();

  // The frames of a batch are arriving.
  bool begun() const { return begun_; }
  // Which one: the last that began.
  Position position() const { return position_; }
  absl::Time begun_at() const { return begun_at_; }
  // It is to be handed out: nobody else has brought it yet.
  bool wanted() const { return wanted_; }
  // Null where it lies in shared memory, and where it is not wanted.
  const uint8_t* slot() const { return batch_.slot; }
  // It came in memory that the server shares, whether it was copied or not.
  bool in_shared() const { return in_shared_; }
  uint64_t received() const { return received_; }

 private:
  void AddToDigest(const FrameView& frame);
  // Of a batch that is whole.
  absl::Span<const uint8_t> Payload() const;

  bool begun_ = false;
  bool wanted_ = false;
  bool in_shared_ = false;
  Position position_;
  absl::Time begun_at_;
  uint64_t payload_bytes_ = 0;
  uint64_t received_ = 0;
  WholeBatch batch_;
  std::unique_ptr<RunningDigest> digest_;  // null: nothing is compared
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_BATCH_ASSEMBLY_H_
