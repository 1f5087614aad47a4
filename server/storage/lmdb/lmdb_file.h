// LmdbFile is a shard file opened for reading: its map and its tree.
//
// Immutable, thread-safe. The file may change under it: a look-up never ends
// the process, and CheckUnchanged() says whether what was read may be used.
//
//   MR_ASSIGN_OR_RETURN(auto file, LmdbFile::Open(path));
//   LmdbTree::Position position;
//   MR_ASSIGN_OR_RETURN(auto value, file->Get(key, &position));

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_FILE_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/lmdb/lmdb_header.h"
#include "server/storage/lmdb/lmdb_tree.h"
#include "server/storage/mapped_file.h"
#include "server/storage/mapped_pages.h"

namespace millrace::storage {

class LmdbFile {
 public:
  // DataLoss: truncated, foreign or damaged, as far as the file's header
  // shows. Errors name the file.
  static absl::StatusOr<std::unique_ptr<const LmdbFile>> Open(
      const std::string& path);

  const std::string& path() const { return file_->path(); }
  uint64_t bytes() const { return file_->data().size(); }
  // Rows and metadata record.
  uint64_t entries() const { return header_.entries; }

  // As MappedFile::CheckUnchanged().
  absl::Status CheckUnchanged() const { return file_->CheckUnchanged(); }

  // The value where it lies in the file; valid while the file is open.
  // `position` is the reader's. NotFound: no such key. DataLoss: the tree is
  // damaged. Unavailable: the file has changed.
  absl::StatusOr<absl::Span<const uint8_t>> Get(
      absl::string_view key, LmdbTree::Position* position) const;

  // Get() without the cost of a StatusOr.
  LmdbTree::Result TryGet(absl::string_view key, LmdbTree::Position* position,
                          absl::Span<const uint8_t>* value) const;

  // The value at a place that a cursor found, of any database of the file.
  LmdbTree::Result TryAt(const LmdbPlace& place,
                         absl::Span<const uint8_t>* value) const;

  absl::Span<const uint8_t> data() const { return file_->data(); }
  const LmdbHeader& header() const { return header_; }

  // Waits until the pages of a value that Get() gave lie in memory.
  void Touch(absl::Span<const uint8_t> value) const { pages_.Touch(value); }

  // That a page of the tree does not hold what belongs there.
  absl::Status DamagedTree() const;

 private:
  LmdbFile(std::unique_ptr<const MappedFile> file, const LmdbHeader& header);

  const std::unique_ptr<const MappedFile> file_;
  const LmdbHeader header_;
  const LmdbTree tree_;
  const MappedPages pages_;  // of file_
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_FILE_H_
