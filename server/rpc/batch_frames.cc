#include "server/rpc/batch_frames.h"

#include <utility>

#include "proto/wire/frame_encoder.h"

namespace millrace::rpc {
namespace {

// Keeps a payload alive while slices refer to it.
struct Held {
  std::shared_ptr<batch::BatchPayload> payload;
  std::shared_ptr<LivePayloads> live;
};

// Runs on the gRPC thread that drops the last slice.
void GiveBack(void* argument) {
  auto* held = static_cast<Held*>(argument);
  const std::shared_ptr<LivePayloads> live = std::move(held->live);
  delete held;
  live->Remove();  // after the budget has its bytes back
}

grpc::Slice WholePayload(std::shared_ptr<batch::BatchPayload> payload,
                         std::shared_ptr<LivePayloads> live) {
  if (payload == nullptr || payload->bytes() == 0) return grpc::Slice();
  live->Add();
  uint8_t* const data = payload->data();
  const uint64_t bytes = payload->bytes();
  return grpc::Slice(data, bytes, &GiveBack,
                     new Held{std::move(payload), std::move(live)});
}

}  // namespace

BatchFrames::BatchFrames(batch::FilledBatch batch,
                         std::shared_ptr<LivePayloads> live,
                         BatchCompression compression)
    : header_(std::move(batch.header)),
      payload_bytes_(header_.payload_bytes()),
      compression_(std::move(compression)) {
  // The frames of a batch are made when the connection is free for the first
  // one.
  if (batch.whole != SteadyTime()) {
    header_.mutable_stage_micros()->set_send(
        std::chrono::duration_cast<std::chrono::microseconds>(
            SteadyTime::clock::now() - batch.whole)
            .count());
  }
  // Only memory of a single batch can be lent. Several batches may refer to one
  // ready payload, so it is not lent.
  if (batch.payload.use_count() == 1 && payload_bytes_ > 0) {
    if (auto lending = batch.payload->Lend()) {
      header_.mutable_shared()->set_slot(lending->lent.slot);
      header_.mutable_shared()->set_generation(lending->lent.generation);
      lent_.reset(new Lent{*std::move(lending)});
      payload_bytes_ = 0;
      return;
    }
  }
  payload_ = WholePayload(std::move(batch.payload), std::move(live));
}

grpc::ByteBuffer BatchFrames::Next(uint64_t max_bytes) {
  uint64_t bytes = payload_bytes_ - offset_;
  uint64_t data_bytes = bytes;
  wire::FrameCompression compression;
  if (part_ < compression_.size()) {
    const CompressedPart& part = compression_[part_++];
    bytes = part.raw_bytes;
    data_bytes = part.data_bytes;
    if (part.compressed) {
      compression = {COMPRESSION_ZSTD, part.raw_bytes, part.delta_stride};
    }
  } else if (bytes > max_bytes + max_bytes / 4) {
    // A remainder slightly larger than a frame is sent with the last frame.
    bytes = data_bytes = max_bytes;
  }

  grpc::Slice slices[2];
  if (!started_) {
    slices[0] = grpc::Slice(
        wire::EncodeFirstFramePrefix(header_, data_bytes, compression));
    if (lent_ != nullptr) lent_->told = true;
  } else {
    // gRPC keeps a prefix this short inside the slice and allocates no memory
    // for it.
    char prefix[wire::kMaxFramePrefixBytes];
    slices[0] = grpc::Slice(
        prefix, wire::EncodeFramePrefix(header_.step(), offset_, data_bytes,
                                        prefix, compression));
  }
  started_ = true;
  if (bytes == 0) return grpc::ByteBuffer(slices, 1);
  slices[1] = payload_.sub(offset_, offset_ + data_bytes);
  offset_ += bytes;
  // From here on only the frames keep the payload.
  if (offset_ == payload_bytes_) payload_ = grpc::Slice();
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace millrace::rpc
