// The filter lzf, number 32000, which h5py has and libhdf5 has not: for reading
// only.
//
// Pure functions. RegisterLzfFilter() belongs to the start of the program.
//
//   if (!RegisterLzfFilter()) ...

#ifndef MILLRACE_SERVER_STORAGE_HDF5_LZF_FILTER_H_
#define MILLRACE_SERVER_STORAGE_HDF5_LZF_FILTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace millrace::storage {

inline constexpr int kLzfFilter = 32000;

// Decompresses `from` to the beginning of `to`. Returns the number of bytes; 0:
// the input is damaged, or `to` is too short.
//
// The format: a control byte c below 32 is followed by c + 1 bytes as they are.
// Otherwise its upper three bits are the length of a copy minus 2 (7: the next
// byte is added), and its lower five bits and the byte behind them are the
// distance of the copied bytes minus 1.
size_t DecompressLzf(absl::Span<const uint8_t> from, absl::Span<uint8_t> to);

// False: libhdf5 refuses it.
bool RegisterLzfFilter();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_LZF_FILTER_H_
