#include "proto/wire/frame_view.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/bulk_copy.h"
#include "proto/wire/frame_compression.h"
#include "proto/wire/version.h"
#include "proto/wire/wire_format.h"

namespace millrace::wire {
namespace {

// A payload of this size has left a core's own caches when it is read.
constexpr uint64_t kBulkPayloadBytes = 1 << 20;

// Groups are gone from proto3, but an unknown field may be one.
constexpr int kMaxGroupDepth = 32;

// Reads forward through slices as if they were one string.
class SliceReader {
 public:
  explicit SliceReader(absl::Span<const absl::string_view> slices)
      : slices_(slices) {
    for (absl::string_view slice : slices) left_ += slice.size();
    total_ = left_;
    SkipEmpty();
  }

  uint64_t left() const { return left_; }
  uint64_t position() const { return total_ - left_; }

  // Callers have checked that a byte is left.
  uint8_t Byte() {
    const uint8_t byte = slices_[0][at_];
    Advance(1);
    return byte;
  }

  // The rest of the current slice, at most `limit` bytes; moves past it.
  absl::string_view Piece(uint64_t limit) {
    const absl::string_view piece =
        slices_[0].substr(at_, std::min<uint64_t>(limit, left_));
    Advance(piece.size());
    return piece;
  }

 private:
  void Advance(uint64_t n) {
    at_ += n;
    left_ -= n;
    SkipEmpty();
  }
  void SkipEmpty() {
    while (left_ > 0 && at_ == slices_[0].size()) {
      slices_.remove_prefix(1);
      at_ = 0;
    }
  }

  absl::Span<const absl::string_view> slices_;
  uint64_t at_ = 0;  // in slices_[0]
  uint64_t left_ = 0;
  uint64_t total_ = 0;
};

absl::Status Damaged(const SliceReader& in, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "a damaged frame was received: ", what, " at byte ", in.position()));
}

// At most `max_bytes` long: 10 for a number, 5 for tags and lengths, which
// protobuf itself does not take longer.
absl::Status ReadVarint(SliceReader& in, int max_bytes, uint64_t* value) {
  uint64_t result = 0;
  for (int i = 0; i < max_bytes; ++i) {
    if (in.left() == 0) return Damaged(in, "it ends inside a number");
    const uint8_t byte = in.Byte();
    if (i == 9 && byte > 1) break;
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      *value = result;
      return absl::OkStatus();
    }
  }
  return Damaged(in, absl::StrCat("a number of over ",
                                  max_bytes == 10 ? 64 : 35, " bits"));
}

absl::Status ReadNumber(SliceReader& in, uint64_t* value) {
  return ReadVarint(in, 10, value);
}

absl::Status ReadTag(SliceReader& in, uint32_t* field, uint32_t* type) {
  uint64_t tag = 0;
  if (absl::Status s = ReadVarint(in, 5, &tag); !s.ok()) return s;
  if (tag > UINT32_MAX || tag >> 3 == 0) {
    return Damaged(in, "an impossible field number");
  }
  *field = static_cast<uint32_t>(tag >> 3);
  *type = static_cast<uint32_t>(tag & 7);
  return absl::OkStatus();
}

absl::Status ReadLength(SliceReader& in, uint64_t* length) {
  if (absl::Status s = ReadVarint(in, 5, length); !s.ok()) return s;
  if (*length > in.left()) {
    return Damaged(in, absl::StrCat("a field of ", *length, " bytes where ",
                                    in.left(), " are left"));
  }
  return absl::OkStatus();
}

absl::Status Skip(SliceReader& in, uint64_t bytes) {
  if (bytes > in.left()) return Damaged(in, "it ends inside a field");
  while (bytes > 0) bytes -= in.Piece(bytes).size();
  return absl::OkStatus();
}

// Skips the value of an unknown field whose tag has been read.
absl::Status SkipField(SliceReader& in, uint32_t field, uint32_t type,
                       int depth) {
  uint64_t number = 0;
  switch (type) {
    case wire::kVarint:
      return ReadNumber(in, &number);
    case wire::kFixed64:
      return Skip(in, 8);
    case wire::kFixed32:
      return Skip(in, 4);
    case wire::kLength:
      if (absl::Status s = ReadLength(in, &number); !s.ok()) return s;
      return Skip(in, number);
    case wire::kStartGroup:
      if (depth == kMaxGroupDepth)
        return Damaged(in, "groups are nested too deeply");
      while (true) {
        uint32_t inner_field = 0;
        uint32_t inner_type = 0;
        if (absl::Status s = ReadTag(in, &inner_field, &inner_type); !s.ok()) {
          return s;
        }
        if (inner_type == wire::kEndGroup) {
          return inner_field == field
                     ? absl::OkStatus()
                     : Damaged(in,
                               "a group ends with the number of another group");
        }
        if (absl::Status s = SkipField(in, inner_field, inner_type, depth + 1);
            !s.ok()) {
          return s;
        }
      }
    default:
      return Damaged(in, "a field of an unknown type");
  }
}

// A header given twice is merged, as protobuf does.
absl::Status ReadHeader(SliceReader& in, FrameView* frame) {
  uint64_t length = 0;
  if (absl::Status s = ReadLength(in, &length); !s.ok()) return s;
  if (length > kMaxBatchHeaderBytes) {
    return Damaged(in, absl::StrCat("a batch header of ", length, " bytes"));
  }
  absl::string_view bytes = in.Piece(length);
  std::string joined;
  if (bytes.size() < length) {  // it is in several slices
    joined.assign(bytes.data(), bytes.size());
    while (joined.size() < length) {
      const absl::string_view piece = in.Piece(length - joined.size());
      joined.append(piece.data(), piece.size());
    }
    bytes = joined;
  }
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const uint8_t*>(bytes.data()),
      static_cast<int>(bytes.size()));
  if (!frame->header.MergeFromCodedStream(&stream) ||
      !stream.ConsumedEntireMessage()) {
    return Damaged(in, "a batch header that does not parse");
  }
  frame->has_header = true;
  return absl::OkStatus();
}

// `data` given twice: the last one counts, as in protobuf.
absl::Status ReadData(SliceReader& in, FrameView* frame) {
  uint64_t left = 0;
  if (absl::Status s = ReadLength(in, &left); !s.ok()) return s;
  frame->data.clear();
  frame->data_bytes = left;
  while (left > 0) {
    frame->data.push_back(in.Piece(left));
    left -= frame->data.back().size();
  }
  return absl::OkStatus();
}

absl::Status WrongType(const SliceReader& in, absl::string_view name) {
  return Damaged(in, absl::StrCat("field `", name, "` has a wrong type"));
}

}  // namespace

absl::Status ParseFrame(absl::Span<const absl::string_view> slices,
                        FrameView* frame) {
  frame->has_header = false;
  frame->header.Clear();
  frame->step = 0;
  frame->offset = 0;
  frame->data_bytes = 0;
  frame->data.clear();
  frame->compression = COMPRESSION_NONE;
  frame->raw_bytes = 0;
  frame->delta_stride = 0;
  frame->hold = nullptr;

  SliceReader in(slices);
  while (in.left() > 0) {
    uint32_t field = 0;
    uint32_t type = 0;
    absl::Status status = ReadTag(in, &field, &type);
    if (!status.ok()) return status;
    switch (field) {
      case wire::kFrameHeader:
        if (type != wire::kLength) return WrongType(in, "header");
        status = ReadHeader(in, frame);
        break;
      case wire::kFrameStep:
        if (type != wire::kVarint) return WrongType(in, "step");
        status = ReadNumber(in, &frame->step);
        break;
      case wire::kFrameOffset:
        if (type != wire::kVarint) return WrongType(in, "offset");
        status = ReadNumber(in, &frame->offset);
        break;
      case wire::kFrameData:
        if (type != wire::kLength) return WrongType(in, "data");
        status = ReadData(in, frame);
        break;
      case wire::kFrameCompression: {
        if (type != wire::kVarint) return WrongType(in, "compression");
        uint64_t number = 0;
        status = ReadNumber(in, &number);
        // As protobuf reads an enum.
        frame->compression = static_cast<int32_t>(number);
        break;
      }
      case wire::kFrameRawBytes:
        if (type != wire::kVarint) return WrongType(in, "raw_bytes");
        status = ReadNumber(in, &frame->raw_bytes);
        break;
      case wire::kFrameDeltaStride: {
        if (type != wire::kVarint) return WrongType(in, "delta_stride");
        uint64_t number = 0;
        status = ReadNumber(in, &number);
        // As protobuf reads a uint32.
        frame->delta_stride = static_cast<uint32_t>(number);
        break;
      }
      default:
        status = SkipField(in, field, type, 0);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CopyFrameData(const FrameView& frame,
                           absl::Span<uint8_t> payload) {
  const uint64_t bytes = frame.payload_bytes();
  if (frame.offset > payload.size() || bytes > payload.size() - frame.offset) {
    return absl::DataLossError(
        absl::StrCat("a damaged frame was received: step ", frame.step,
                     " has bytes ", frame.offset, " to ", frame.offset, " + ",
                     bytes, " of a payload of ", payload.size()));
  }
  uint8_t* out = payload.data() + frame.offset;
  if (frame.compression != COMPRESSION_NONE) {
    return DecompressFrame(frame.data, frame.compression, frame.delta_stride,
                           {out, bytes});
  }
  const bool large = payload.size() >= kBulkPayloadBytes;
  for (absl::string_view piece : frame.data) {
    if (large) {
      BulkCopy(out, piece.data(), piece.size());
    } else {
      std::memcpy(out, piece.data(), piece.size());
    }
    out += piece.size();
  }
  return absl::OkStatus();
}

}  // namespace millrace::wire
