// The seek index of a JPEG: how many bytes each of its restart intervals has,
// so that decoding can begin in the middle of the scan. It lies in the file
// itself, in an APP9 segment that other readers pass over:
//
//   "MRSEEK1\0", then for each restart interval its bytes, its marker among
//   them, as a varint (7 bits a byte, the lowest first, at most 4 bytes)
//
// The last interval ends with EOI, which ends the file.
//
// Pure functions over foreign bytes: a tool that rewrites a scan may have left
// an index that is no longer true. An index is believed only when every one of
// its intervals ends with the marker that must stand there. A scan of n
// intervals has n - 1 restart markers and data never looks like one, so n - 1
// places in rising order that hold them are all there are. Data with more of
// them is damaged: FastEntropy notices when it reads the last interval.
//
//   std::string payload = SeekIndexOf(scan);
//   std::optional<size_t> at = FindInterval(payload, scan, intervals, 7);

#ifndef MILLRACE_SERVER_DECODE_SEEK_INDEX_H_
#define MILLRACE_SERVER_DECODE_SEEK_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"

namespace millrace::decode {

// n of APPn.
inline constexpr int kSeekIndexApp = 9;

// Whether an APP9 segment's payload begins as an index.
bool IsSeekIndex(absl::Span<const uint8_t> payload);

// The payload for `scan`, which begins behind the SOS segment's header. Empty
// when the scan is not one of restart intervals that EOI ends.
std::string SeekIndexOf(absl::Span<const uint8_t> scan);

// Where in `scan` restart interval `wanted` (from 0, less than `intervals`)
// begins; nothing when the index is not of this scan, whose image has
// `intervals` of them.
std::optional<size_t> FindInterval(absl::Span<const uint8_t> payload,
                                   absl::Span<const uint8_t> scan,
                                   uint32_t intervals, uint32_t wanted);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_SEEK_INDEX_H_
