// SampleFiles is what a RecordSource is besides, when each of its samples is a
// file of its own: errors and lists then name that file instead of a shard and
// a row. In an error such a file counts as a shard of one row.
//
// Thread-safe, immutable.
//
//   if (const SampleFiles* files = SampleFilesOf(source)) {
//     Print(files->FileOf(17));  // "cat/1.jpg"
//   }

#ifndef MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_
#define MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_

#include <cstdint>
#include <string>

#include "server/storage/record_source.h"

namespace millrace::storage {

class SampleFiles {
 public:
  virtual ~SampleFiles() = default;

  // Path of sample `index`, which exists, within the dataset.
  virtual std::string FileOf(int64_t index) const = 0;
};

// Null: the samples of `source` share files.
inline const SampleFiles* SampleFilesOf(const RecordSource& source) {
  return dynamic_cast<const SampleFiles*>(&source);
}

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_
