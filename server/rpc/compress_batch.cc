#include "server/rpc/compress_batch.h"

#include <algorithm>
#include <cstring>

#include "proto/wire/frame_compression.h"
#include "proto/wire/version.h"

namespace millrace::rpc {
namespace {

// The stride of the tensor that holds most of bytes [offset, offset + bytes).
uint32_t StrideAt(const BatchHeader& header, uint64_t offset, uint64_t bytes) {
  const uint64_t middle = offset + bytes / 2;
  for (const TensorHeader& tensor : header.tensors()) {
    if (middle >= tensor.offset() &&
        middle - tensor.offset() < tensor.bytes()) {
      return wire::DeltaStrideFor(tensor.dtype(), tensor.sample_shape());
    }
  }
  return 0;
}

}  // namespace

BatchCompression CompressBatch(batch::FilledBatch& batch) {
  BatchCompression parts;
  if (batch.payload == nullptr || batch.payload.use_count() != 1 ||
      batch.payload->in_shared_memory()) {
    return parts;
  }
  const uint64_t total = batch.header.payload_bytes();
  uint8_t* const data = batch.payload->data();
  for (uint64_t offset = 0; offset < total;) {
    CompressedPart part;
    part.offset = offset;
    part.raw_bytes = std::min<uint64_t>(wire::kFrameDataBytes, total - offset);
    part.data_bytes = part.raw_bytes;
    const auto compressed =
        wire::CompressFrame({data + offset, part.raw_bytes},
                            StrideAt(batch.header, offset, part.raw_bytes));
    if (compressed.has_value()) {
      std::memcpy(data + offset, compressed->data.data(),
                  compressed->data.size());
      part.data_bytes = compressed->data.size();
      part.delta_stride = compressed->delta_stride;
      part.compressed = true;
    }
    parts.push_back(part);
    offset += part.raw_bytes;
  }
  return parts;
}

}  // namespace millrace::rpc
