// PackBatch packs a finished batch for a thin link, frame by frame, in place: a
// packed frame is shorter than the bytes that it stands for, so it is written
// over them. Nothing is allocated for it beyond a thread's scratch.
//
// Takes a few milliseconds a megabyte: for the thread that finished the batch,
// outside of locks. Thread-safe.
//
//   BatchPacking packing = PackBatch(batch);
//   BatchFrames frames(std::move(batch), live, std::move(packing));

#ifndef MILLRACE_SERVER_RPC_PACK_BATCH_H_
#define MILLRACE_SERVER_RPC_PACK_BATCH_H_

#include <cstdint>
#include <vector>

#include "server/batch/filled_batch.h"

namespace millrace {

// One frame: bytes [offset, offset + raw_bytes) of the payload. Packed, its
// data_bytes lie at `offset` instead of them.
struct PackedPart {
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  uint64_t data_bytes = 0;
  uint32_t delta_stride = 0;
  bool packed = false;
};

// The frames of a packed batch, in order; empty: it is sent as it is.
using BatchPacking = std::vector<PackedPart>;

// Leaves alone a payload that is shared with a client of this machine. That no
// other batch refers to the payload is the engine's promise: it makes a payload
// for each batch of a spec with compression. (References to a synthetic source's
// ready payloads have a count of their own, so use_count() does not tell.)
BatchPacking PackBatch(FilledBatch& batch);

}  // namespace millrace

#endif  // MILLRACE_SERVER_RPC_PACK_BATCH_H_
