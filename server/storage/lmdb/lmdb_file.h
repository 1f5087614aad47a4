// LmdbFile is a shard file opened for reading: LMDB's environment, its one
// database and the bounds of its map.
//
// Immutable, thread-safe, shared: LMDB allows one environment a file in a
// process, so Open() gives everybody the same one while it lives. Each reader
// makes its own transaction.
//
//   MR_ASSIGN_OR_RETURN(auto file, LmdbFile::Open(path));
//   MR_ASSIGN_OR_RETURN(auto cursor, LmdbCursor::Create(file));
//   MR_ASSIGN_OR_RETURN(absl::Span<const uint8_t> value, cursor->Get(key));

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_FILE_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_FILE_H_

#include <lmdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/lmdb/lmdb_header.h"

namespace millrace {

// "cannot ACTION PATH: ..." for a return code of LMDB (an errno, or one of its
// own).
absl::Status LmdbError(int rc, absl::string_view action,
                       absl::string_view path);

class LmdbFile {
 public:
  // DataLoss: truncated, foreign or damaged, as far as the file's header
  // shows. Errors name the file.
  static absl::StatusOr<std::shared_ptr<const LmdbFile>> Open(
      const std::string& path);
  ~LmdbFile();
  LmdbFile(const LmdbFile&) = delete;
  LmdbFile& operator=(const LmdbFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t entries() const { return entries_; }  // rows and metadata record

 private:
  friend class LmdbCursor;
  LmdbFile() = default;
  absl::Status LocateMap(const LmdbHeader& header);

  std::string path_;
  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
  uint64_t bytes_ = 0;
  uint64_t entries_ = 0;
  // Where the file's pages lie; null when that is not known.
  const uint8_t* map_ = nullptr;
  uint64_t map_bytes_ = 0;
  uint64_t os_page_bytes_ = 4096;
  bool random_access_ = false;
};

// One reader's way through a file. Belongs to one thread at a time.
class LmdbCursor {
 public:
  static absl::StatusOr<std::unique_ptr<LmdbCursor>> Create(
      std::shared_ptr<const LmdbFile> file);
  ~LmdbCursor();
  LmdbCursor(const LmdbCursor&) = delete;
  LmdbCursor& operator=(const LmdbCursor&) = delete;

  // The value where it lies in the file; valid while the cursor lives.
  // NotFound: no such key. DataLoss: the tree is damaged.
  absl::StatusOr<absl::Span<const uint8_t>> Get(absl::string_view key);

  // Get() without the cost of a StatusOr: an LMDB return code, MDB_CORRUPTED
  // when the value lies outside the file.
  int TryGet(absl::string_view key, absl::Span<const uint8_t>* value);

  // Waits until the pages of a value that Get() gave lie in memory.
  void Touch(absl::Span<const uint8_t> value) const;

 private:
  explicit LmdbCursor(std::shared_ptr<const LmdbFile> file)
      : file_(std::move(file)) {}

  const std::shared_ptr<const LmdbFile> file_;
  MDB_txn* txn_ = nullptr;
  MDB_cursor* cursor_ = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_FILE_H_
