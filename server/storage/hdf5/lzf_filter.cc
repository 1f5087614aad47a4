#include "server/storage/hdf5/lzf_filter.h"

#include <hdf5/serial/hdf5.h>

#include <cstdlib>
#include <cstring>

#include "server/storage/hdf5/reader_messages.h"

namespace millrace::storage {
namespace {

// The second and later values that h5py stores: versions, then bytes of a
// chunk.
constexpr size_t kChunkBytesValue = 2;

size_t Filter(unsigned flags, size_t count, const unsigned values[],
              size_t bytes, size_t* buffer_bytes, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;  // only reads
  if (count <= kChunkBytesValue) return 0;
  const size_t room = values[kChunkBytesValue];
  if (room == 0 || room > kHdf5MaxReplyBytes || bytes > *buffer_bytes) return 0;
  // libhdf5 frees it.
  auto* const out = static_cast<uint8_t*>(malloc(room));
  if (out == nullptr) return 0;
  const size_t done =
      DecompressLzf({static_cast<const uint8_t*>(*buffer), bytes}, {out, room});
  if (done == 0) {
    free(out);
    return 0;
  }
  free(*buffer);
  *buffer = out;
  *buffer_bytes = room;
  return done;
}

}  // namespace

size_t DecompressLzf(absl::Span<const uint8_t> from, absl::Span<uint8_t> to) {
  size_t in = 0;
  size_t out = 0;
  while (in < from.size()) {
    const size_t control = from[in++];
    if (control < 32) {
      const size_t bytes = control + 1;
      if (bytes > from.size() - in || bytes > to.size() - out) return 0;
      std::memcpy(to.data() + out, from.data() + in, bytes);
      in += bytes;
      out += bytes;
      continue;
    }
    size_t bytes = control >> 5;
    if (bytes == 7) {
      if (in == from.size()) return 0;
      bytes += from[in++];
    }
    bytes += 2;
    if (in == from.size()) return 0;
    const size_t distance = ((control & 31) << 8 | from[in++]) + 1;
    if (distance > out || bytes > to.size() - out) return 0;
    // Byte by byte: source and destination may overlap.
    for (size_t i = 0; i < bytes; ++i, ++out) to[out] = to[out - distance];
  }
  return out;
}

bool RegisterLzfFilter() {
  H5Z_class2_t filter = {};
  filter.version = H5Z_CLASS_T_VERS;
  filter.id = kLzfFilter;
  filter.encoder_present = 0;
  filter.decoder_present = 1;
  filter.name = "lzf";
  filter.filter = Filter;
  return H5Zregister(&filter) >= 0;
}

}  // namespace millrace::storage
