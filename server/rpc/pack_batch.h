// PackBatch packs a finished batch for a thin link, frame by frame, in place: a
// packed frame is shorter than the bytes that it stands for, so it is written
// over them. Nothing is allocated for it beyond a thread's scratch.
//
// Takes a few milliseconds for each megabyte. The thread that finished the
// batch calls it, without locks. Thread-safe.
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

// Does not change a payload that is shared with a client on this machine. The
// engine guarantees that no other batch refers to the payload: it creates a
// payload for each batch of a spec with compression. (References to the ready
// payloads of a synthetic source have their own count, so use_count() cannot
// check this.)
BatchPacking PackBatch(FilledBatch& batch);

}  // namespace millrace

#endif  // MILLRACE_SERVER_RPC_PACK_BATCH_H_
