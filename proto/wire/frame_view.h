// FrameView is a received Frame seen in place: `data` are views of the slices
// it arrived in, so a receiver copies the payload exactly once, to where it
// belongs.
//
// The bytes are foreign. Parsing takes what protobuf takes (any order of
// fields, unknown fields, a field given twice) and refuses what is damaged:
// truncation, varints that do not end or overflow, lengths past the end, known
// fields of a wrong type. Nothing is allocated by a length that the wire
// claims. That a batch makes sense is checked by batch_view.h.
//
// Not thread-safe; keep one FrameView per stream and parse into it again and
// again: then nothing is allocated per frame.
//
//   FrameView frame;
//   MR_RETURN_IF_ERROR(ParseFrame(slices, &frame));
//   if (frame.has_header) { ... ValidateBatchHeader(frame.header, ...) ... }
//   if (!Fits(frame.offset, frame.data_bytes, slot)) return ...;
//   for (absl::string_view piece : frame.data) Copy(piece);

#ifndef MILLRACE_PROTO_WIRE_FRAME_VIEW_H_
#define MILLRACE_PROTO_WIRE_FRAME_VIEW_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::wire {

struct FrameView {
  bool has_header = false;
  BatchHeader header;  // empty without has_header
  uint64_t step = 0;
  uint64_t offset = 0;      // of `data` in the payload; not checked here
  uint64_t data_bytes = 0;  // of all pieces together
  // How `data` is compressed; raw_bytes and delta_stride say nothing without
  // it.
  int compression = COMPRESSION_NONE;  // maybe one that is not known here
  uint64_t raw_bytes = 0;
  uint32_t delta_stride = 0;

  // Bytes of the payload that the frame holds.
  uint64_t payload_bytes() const {
    return compression == COMPRESSION_NONE ? data_bytes : raw_bytes;
  }

  // Valid as long as the slices are.
  std::vector<absl::string_view> data;
  // Not of the wire: a transport that shares memory with the server sets it
  // when `data` is the whole payload in one piece, which stays readable and
  // unchanged for as long as this is held.
  std::shared_ptr<void> hold;
};

// Parses one message that is in `slices`, in their order. DataLoss: damaged;
// says what and at which byte. `frame` is then unspecified.
absl::Status ParseFrame(absl::Span<const absl::string_view> slices,
                        FrameView* frame);

// Copies or decompresses the frame's data to payload + frame.offset. DataLoss
// when it does not fit into `payload` (nothing is copied then), or when it
// cannot be decompressed: its place in `payload` is then unspecified.
absl::Status CopyFrameData(const FrameView& frame, absl::Span<uint8_t> payload);

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_FRAME_VIEW_H_
