#include "server/storage/tfrecord/tfrecord_scanner.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/tfrecord/crc32c.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kChecksumBytes = 4;
constexpr uint64_t kHeaderBytes = kLengthBytes + kChecksumBytes;
// Bytes of an extent: the limit of IndexedRecord.
constexpr uint64_t kMaxExtentBytes = std::numeric_limits<uint32_t>::max();

template <typename T>
T Number(const uint8_t* at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

bool StartsLikeGzip(absl::Span<const uint8_t> start) {
  return start.size() >= 2 && start[0] == 0x1F && start[1] == 0x8B;
}

// A zlib stream of TensorFlow's writer or another: deflate with a window of
// 32 KiB, and the check bits of its two bytes.
bool StartsLikeZlib(absl::Span<const uint8_t> start) {
  return start.size() >= 2 && start[0] == 0x78 &&
         (start[0] * 256 + start[1]) % 31 == 0;
}

absl::Status Compressed(absl::string_view how, absl::string_view way_out) {
  return absl::UnimplementedError(absl::StrCat(
      "byte 0: the file is compressed with ", how,
      ", and a compressed TFRecord file has no records that can be read one by "
      "one: ",
      way_out));
}

// The error for a file whose first bytes are no header of a record.
absl::Status NoTfrecord(absl::Span<const uint8_t> start) {
  if (StartsLikeGzip(start)) {
    return Compressed("gzip",
                      "decompress it (gzip -d NAME.gz), write it again "
                      "without compression, or let its name end in .gz and "
                      "name a folder for decompressed copies (--cache_dir)");
  }
  if (StartsLikeZlib(start)) {
    return Compressed("zlib",
                      "write it again without compression (TFRecordOptions "
                      "with an empty compression_type)");
  }
  return absl::DataLossError(
      "byte 0: the file does not begin with the length and the checksum of a "
      "record: it is no TFRecord file, or it is damaged");
}

}  // namespace

absl::StatusOr<std::optional<IndexedRecord>> TfrecordScanner::Next() {
  const uint64_t left = window_.size() - at_;
  if (left == 0) return std::nullopt;
  if (left < kHeaderBytes) {
    if (at_ == 0) {
      MR_ASSIGN_OR_RETURN(const auto start, window_.At(0, left));
      return NoTfrecord(start);
    }
    return absl::DataLossError(absl::StrCat(
        "byte ", at_, ": the file ends with ", left,
        " bytes that are no record: it is cut off; copy it again"));
  }
  MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> header,
                      window_.At(at_, kHeaderBytes));
  if (Number<uint32_t>(header.data() + kLengthBytes) !=
      MaskedCrc32c(header.first(kLengthBytes))) {
    if (at_ == 0) return NoTfrecord(header);
    return absl::DataLossError(absl::StrCat(
        "byte ", at_,
        ": the length of a record does not match its checksum: the file is "
        "damaged here or before; copy or write it again"));
  }
  const uint64_t length = Number<uint64_t>(header.data());
  const uint64_t behind = left - kHeaderBytes;
  if (behind < kChecksumBytes || length > behind - kChecksumBytes) {
    return absl::DataLossError(absl::StrCat(
        "byte ", at_, ": a record of ", length, " bytes does not fit into the ",
        behind,
        " bytes behind its header: the file is cut off; copy it again"));
  }
  if (length > kMaxExtentBytes - kChecksumBytes) {
    return absl::UnimplementedError(absl::StrCat(
        "byte ", at_, ": a record has ", length, " bytes, and the maximum is ",
        kMaxExtentBytes - kChecksumBytes, ": write smaller records"));
  }
  IndexedRecord record = {.offset = at_ + kHeaderBytes,
                          .bytes = length + kChecksumBytes};
  at_ = record.offset + record.bytes;
  return record;
}

absl::StatusOr<absl::Span<const uint8_t>> CheckPayload(
    absl::Span<const uint8_t> extent) {
  if (extent.size() < kChecksumBytes) {
    return absl::DataLossError(absl::StrCat("the record has ", extent.size(),
                                            " bytes, fewer than its checksum"));
  }
  const absl::Span<const uint8_t> payload =
      extent.first(extent.size() - kChecksumBytes);
  if (Number<uint32_t>(extent.data() + payload.size()) !=
      MaskedCrc32c(payload)) {
    return absl::DataLossError(
        absl::StrCat("the ", payload.size(),
                     " bytes of the record do not match their checksum: the "
                     "file is damaged; copy or "
                     "write it again"));
  }
  return payload;
}

}  // namespace millrace::storage
