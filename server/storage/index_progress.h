// How a program that indexes a dataset follows its progress.

#ifndef MILLRACE_SERVER_STORAGE_INDEX_PROGRESS_H_
#define MILLRACE_SERVER_STORAGE_INDEX_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace millrace::storage {

// Called on the calling thread before the first file is read and then from
// time to time. False: stop. `bytes`: read so far; 0: only headers are read.
// `all` may change once, when the number of records is known.
using IndexProgress =
    std::function<bool(int64_t done, int64_t all, int64_t bytes)>;

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_INDEX_PROGRESS_H_
