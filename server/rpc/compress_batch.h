// CompressBatch compresses a finished batch for a slow link, frame by frame, in
// place: a compressed frame is shorter than the bytes that it stands for, so it
// is written over them. Nothing is allocated for it beyond a thread's scratch.
//
// Takes a few milliseconds for each megabyte. The thread that finished the
// batch calls it, without locks. Thread-safe.
//
//   BatchCompression compression = CompressBatch(batch);
//   BatchFrames frames(std::move(batch), live, std::move(compression));

#ifndef MILLRACE_SERVER_RPC_COMPRESS_BATCH_H_
#define MILLRACE_SERVER_RPC_COMPRESS_BATCH_H_

#include <cstdint>
#include <vector>

#include "server/batch/filled_batch.h"

namespace millrace::rpc {

// One frame: bytes [offset, offset + raw_bytes) of the payload. Compressed, its
// data_bytes lie at `offset` instead of them.
struct CompressedPart {
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  uint64_t data_bytes = 0;
  uint32_t delta_stride = 0;
  bool compressed = false;
};

// The frames of a compressed batch, in order; empty: it is sent as it is.
using BatchCompression = std::vector<CompressedPart>;

// Does not change a payload that is shared with a client on this machine. The
// engine guarantees that no other batch refers to the payload: it creates a
// payload for each batch of a spec with compression. (References to the ready
// payloads of a synthetic source have their own count, so use_count() cannot
// check this.)
BatchCompression CompressBatch(batch::FilledBatch& batch);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_COMPRESS_BATCH_H_
