// SampleFiles is what a RecordSource knows besides, when each of its samples is
// a file of its own: errors and lists then name that file instead of a shard
// and a row, and the size of a sample is known before it is read. In an error
// such a file counts as a shard of one row.
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
#include <vector>

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

  // Which files these are, on this machine: equal for two sources only if they
  // read the same folder by the same listing. Copies of a folder may have equal
  // fingerprints and yet change one by one. Not for people.
  virtual std::string Identity() const = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SAMPLE_FILES_H_
