// SampleFiles is what a RecordSource knows besides, when each of its samples is
// a file of its own: errors and lists then name that file instead of a shard
// and a row. In an error such a file counts as a shard of one row.
//
// Thread-safe, immutable.
//
//   if (const SampleFiles* files = source.sample_files()) {
//     Print(files->FileOf(17));  // "cat/1.jpg"
//   }

#ifndef MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_
#define MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_

#include <cstdint>
#include <string>

namespace millrace::storage {

class SampleFiles {
 public:
  virtual ~SampleFiles() = default;

  // Path of sample `index`, which exists, within the dataset.
  virtual std::string FileOf(int64_t index) const = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_
