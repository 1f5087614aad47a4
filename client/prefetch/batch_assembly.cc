#include "client/prefetch/batch_assembly.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/prefetch/sequence.h"
#include "common/status_macros.h"

namespace millrace::prefetch {

absl::Status BatchAssembly::Begin(const wire::FrameView& frame,
                                  const AskedSteps& steps,
                                  wire::BatchExpectation expect,
                                  absl::Time now) {
  const BatchHeader& header = frame.header;
  if (begun_) {
    return absl::DataLossError(absl::StrCat("the batch of step ", header.step(),
                                            " began before the batch of step ",
                                            position_.step, " was complete"));
  }
  if (header.epoch() != steps.epoch || header.step() < steps.first_step ||
      header.step() - steps.first_step >= steps.step_count) {
    return absl::DataLossError(absl::StrCat(
        "a batch of ", PositionText({header.epoch(), header.step()}),
        " came when ", steps.step_count, " steps from ",
        PositionText({steps.epoch, steps.first_step}), " were requested"));
  }
  expect.epoch = header.epoch();
  expect.step = header.step();
  MR_RETURN_IF_ERROR(wire::ValidateBatchHeader(header, expect));
  begun_ = true;
  begun_at_ = now;
  position_ = {header.epoch(), header.step()};
  payload_bytes_ = header.payload_bytes();
  received_ = 0;
  in_shared_ = frame.hold != nullptr;
  return absl::OkStatus();
}

void BatchAssembly::Want(wire::FrameView* frame, uint8_t* slot, bool verify) {
  wanted_ = true;
  batch_.slot = slot;
  batch_.header = std::move(frame->header);
  if (!verify) {
    digest_.reset();
  } else if (digest_ == nullptr) {
    digest_ = std::make_unique<RunningDigest>();
  } else {
    digest_->Clear();
  }
}

// Hashes the source of the copy where possible: it is still in the processor's
// caches. The destination is not, when the copy of a large batch bypasses them.
void BatchAssembly::AddToDigest(const wire::FrameView& frame) {
  if (frame.compression != COMPRESSION_NONE) {
    digest_->Add(batch_.slot + received_, frame.payload_bytes());
    return;
  }
  for (const absl::string_view piece : frame.data) {
    digest_->Add(piece.data(), piece.size());
  }
}

absl::Status BatchAssembly::Add(wire::FrameView& frame) {
  if (!frame.has_header && (!begun_ || frame.step != position_.step)) {
    return absl::DataLossError(
        absl::StrCat("a frame of step ", frame.step,
                     " came before the header of its batch"));
  }
  if (frame.offset != received_ ||
      frame.payload_bytes() > payload_bytes_ - received_) {
    return absl::DataLossError(absl::StrCat(
        "a frame has ", frame.payload_bytes(), " bytes for offset ",
        frame.offset, ", but ", received_, " of ", payload_bytes_,
        " bytes of the batch were received before it"));
  }
  if (!frame.has_header && frame.payload_bytes() == 0) {
    return absl::DataLossError(
        absl::StrCat("a frame is empty, but only ", received_, " of ",
                     payload_bytes_, " bytes of the batch were received"));
  }
  if (wanted_ && batch_.slot != nullptr) {
    MR_RETURN_IF_ERROR(wire::CopyFrameData(
        frame, {batch_.slot, static_cast<size_t>(payload_bytes_)}));
    if (digest_ != nullptr) AddToDigest(frame);
  } else if (wanted_) {
    // A batch in shared memory comes whole, in its first frame.
    if (frame.hold == nullptr || frame.data_bytes != payload_bytes_) {
      return absl::DataLossError(
          "a part of a batch came in shared memory; the whole batch must");
    }
    batch_.shared = std::move(frame.hold);
    if (digest_ != nullptr) {
      digest_->Add(batch_.shared.get(), payload_bytes_);
    }
  }
  received_ += frame.payload_bytes();
  return absl::OkStatus();
}

absl::Span<const uint8_t> BatchAssembly::Payload() const {
  return {batch_.shared != nullptr
              ? static_cast<const uint8_t*>(batch_.shared.get())
              : batch_.slot,
          static_cast<size_t>(payload_bytes_)};
}

absl::Status BatchAssembly::Finish() {
  begun_ = false;
  if (!wanted_) return absl::OkStatus();
  MR_RETURN_IF_ERROR(wire::ValidatePayload(batch_.header, Payload()));
  if (digest_ != nullptr && digest_->Value() != batch_.header.payload_xxh3()) {
    return absl::DataLossError(absl::StrCat(
        "the payload of ", PositionText(position_),
        " differs from the digest that was sent with it: it was damaged on the "
        "way"));
  }
  return absl::OkStatus();
}

WholeBatch BatchAssembly::Take() {
  wanted_ = false;
  return std::exchange(batch_, {});
}

uint8_t* BatchAssembly::Drop() {
  wanted_ = false;
  batch_.shared.reset();
  return std::exchange(batch_.slot, nullptr);
}

}  // namespace millrace::prefetch
