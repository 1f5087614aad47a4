// SampleFiles is what a RecordSource is besides, when each of its samples is a
// file of its own: errors and lists then name that file instead of a shard and
// a row, and the size of a sample is known before it is read. In an error such
// a file counts as a shard of one row.
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
#include <vector>

#include "server/storage/record_source.h"

namespace millrace::storage {

class SampleFiles {
 public:
  virtual ~SampleFiles() = default;

  // Path of sample `index`, which exists, within the dataset.
  virtual std::string FileOf(int64_t index) const = 0;

  // Bytes of sample `index`, which exists, when these fields of it are read: an
  // upper bound.
  virtual uint64_t BytesOf(int64_t index,
                           const std::vector<bool>& used) const = 0;
};

// A RecordSource that may have SampleFiles: because it is one, or because it
// stands for another source.
class SampleFilesHolder {
 public:
  virtual ~SampleFilesHolder() = default;
  virtual const SampleFiles* sample_files() const = 0;  // null: it has none
};

// Null: the samples of `source` share files.
inline const SampleFiles* SampleFilesOf(const RecordSource& source) {
  const auto* const holder = dynamic_cast<const SampleFilesHolder*>(&source);
  return holder == nullptr ? nullptr : holder->sample_files();
}

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_
