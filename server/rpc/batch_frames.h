// BatchFrames cuts a finished batch into the messages that carry it. The
// messages refer to the payload and copy nothing of it. The payload and its
// share of the budget are released when gRPC drops the last reference, after
// the bytes were sent. A payload in memory that the client shares needs one
// frame, which carries the header and no bytes.
//
// Not thread-safe: belongs to one stream.
//
//   BatchFrames frames(std::move(batch), live_payloads);
//   while (!frames.done()) Write(frames.Next());

#ifndef MILLRACE_SERVER_RPC_BATCH_FRAMES_H_
#define MILLRACE_SERVER_RPC_BATCH_FRAMES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <memory>

#include "proto/wire/version.h"
#include "server/batch/filled_batch.h"
#include "server/rpc/compress_batch.h"
#include "server/rpc/live_payloads.h"

namespace millrace::rpc {

class BatchFrames {
 public:
  // `compression` is CompressBatch()'s of this batch.
  BatchFrames(batch::FilledBatch batch, std::shared_ptr<LivePayloads> live,
              BatchCompression compression = {});

  // The next Frame message. If the payload is not compressed, the frame carries
  // about `max_bytes` of it. Every batch has at least one frame, also a batch
  // without payload.
  grpc::ByteBuffer Next(uint64_t max_bytes = wire::kFrameDataBytes);

  bool done() const { return started_ && offset_ == payload_bytes_; }
  const BatchHeader& header() const { return header_; }

 private:
  // Taken back unless the client is told.
  struct Lent {
    ~Lent() {
      if (!told) lending.memory->TakeBack(lending.lent);
    }
    batch::BatchPayload::Lending lending;
    bool told = false;
  };

  BatchHeader header_;
  std::unique_ptr<Lent> lent_;
  uint64_t payload_bytes_;  // to send
  grpc::Slice payload_;     // of the whole; frames are parts of it
  BatchCompression compression_;
  size_t part_ = 0;  // of compression_, the next one
  uint64_t offset_ = 0;
  bool started_ = false;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_BATCH_FRAMES_H_
