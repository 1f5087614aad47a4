// What the making of an index is asked for, and what comes of it.
//
// Plain values.

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_BUILD_OPTIONS_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_BUILD_OPTIONS_H_

#include <cstdint>

#include "proto/extent_index.pb.h"
#include "proto/names.h"
#include "server/storage/extents/extent_index.h"
#include "server/storage/index_progress.h"

namespace millrace::storage {

struct BuildOptions {
  uint32_t threads = 1;
  bool content = false;  // otherwise only headers are read
  // Objects while they are scanned, records while they are read; may be empty.
  IndexProgress progress;
};

struct BuiltIndex {
  ExtentIndexHead head;
  ExtentColumns columns;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_BUILD_OPTIONS_H_
