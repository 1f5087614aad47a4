#include "server/decode/seek_index.h"

#include <cstring>

namespace millrace::decode {
namespace {

constexpr char kName[8] = {'M', 'R', 'S', 'E', 'E', 'K', '1', '\0'};
constexpr int kMaxVarintBytes = 4;
constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kEoi = 0xD9;
// One byte of data and the marker.
constexpr uint32_t kMinIntervalBytes = 3;

}  // namespace

bool IsSeekIndex(absl::Span<const uint8_t> payload) {
  return payload.size() > sizeof(kName) &&
         std::memcmp(payload.data(), kName, sizeof(kName)) == 0;
}

std::string SeekIndexOf(absl::Span<const uint8_t> scan) {
  std::string payload(kName, sizeof(kName));
  size_t begin = 0;
  uint8_t next = kRst0;
  for (size_t i = 0; i + 1 < scan.size();) {
    const auto* stop = static_cast<const uint8_t*>(
        std::memchr(scan.data() + i, 0xFF, scan.size() - 1 - i));
    if (stop == nullptr) break;
    const uint8_t code = stop[1];
    i = stop - scan.data() + 2;
    if (code == 0) continue;
    if (code != kEoi && code != next) break;
    size_t bytes = i - begin;
    if (bytes >= size_t{1} << (7 * kMaxVarintBytes)) break;
    for (; bytes >= 128; bytes >>= 7) {
      payload.push_back(static_cast<char>(bytes | 128));
    }
    payload.push_back(static_cast<char>(bytes));
    if (code == kEoi) return i == scan.size() ? payload : "";
    begin = i;
    next = kRst0 + ((next + 1) & 7);
  }
  return "";
}

std::optional<size_t> FindInterval(absl::Span<const uint8_t> payload,
                                   absl::Span<const uint8_t> scan,
                                   uint32_t intervals, uint32_t wanted) {
  if (!IsSeekIndex(payload)) return std::nullopt;
  const uint8_t* from = payload.data() + sizeof(kName);
  const uint8_t* const from_end = payload.data() + payload.size();
  size_t at = 0;
  size_t found = 0;
  for (uint32_t i = 0; i < intervals; ++i) {
    if (i == wanted) found = at;
    uint32_t bytes = 0;
    for (int shift = 0;; shift += 7) {
      if (from == from_end || shift == 7 * kMaxVarintBytes) {
        return std::nullopt;
      }
      bytes |= static_cast<uint32_t>(*from & 127) << shift;
      if ((*from++ & 128) == 0) break;
    }
    if (bytes < kMinIntervalBytes || bytes > scan.size() - at) {
      return std::nullopt;
    }
    at += bytes;
    const uint8_t marker = i + 1 == intervals ? kEoi : kRst0 + (i & 7);
    if (scan[at - 2] != 0xFF || scan[at - 1] != marker) return std::nullopt;
  }
  if (from != from_end || at != scan.size()) return std::nullopt;
  return found;
}

}  // namespace millrace::decode
