// Which files of a list are compressed as a whole, by the ends of their names:
// .gz, .tgz, .zst, .zstd, .bz2. For formats without a description that says so.
//
//   list.packed = PackedByName(list.names);

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_PACKED_NAMES_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_PACKED_NAMES_H_

#include <string>
#include <vector>

#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

// Sizes of the raw bytes are not known.
PackedObjects PackedByName(const std::vector<std::string>& names);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_PACKED_NAMES_H_
