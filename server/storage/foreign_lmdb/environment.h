// Environment is an LMDB environment that another program wrote, open for
// reading: its file and one database of it. It writes nothing, no lock file
// either.
//
// Immutable, thread-safe. The file may change under it, as LmdbFile says: an
// environment that grows has changed.
//
//   MR_ASSIGN_OR_RETURN(auto environment, Environment::Open(file, ""));
//   LmdbCursor cursor = environment->NewCursor();

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/lmdb/lmdb_cursor.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/lmdb_header.h"
#include "server/storage/lmdb/lmdb_tree.h"

namespace millrace::storage {

class Environment {
 public:
  // `database`: its name; empty: the unnamed one. InvalidArgument: there is no
  // such database, or the environment consists of named ones and `database` is
  // empty; names them. Unimplemented: keys of another order, or several values
  // for a key. Otherwise errors of LmdbFile::Open().
  static absl::StatusOr<std::unique_ptr<const Environment>> Open(
      const std::string& path, const std::string& database);

  const LmdbFile& file() const { return *file_; }
  const std::string& path() const { return file_->path(); }
  uint64_t entries() const { return header_.entries; }  // as the header says

  LmdbCursor NewCursor() const { return {file_->data(), header_}; }

  // As LmdbFile::Get(), in the database.
  LmdbTree::Result Find(absl::string_view key, LmdbTree::Position* position,
                        absl::Span<const uint8_t>* value) const {
    return tree_.Find(key, position, value);
  }

  // The value at a place of the cursor, without the read-ahead of
  // LmdbFile::TryAt(): for a look at a part of it.
  LmdbTree::Result At(const LmdbPlace& place,
                      absl::Span<const uint8_t>* value) const {
    return tree_.At(place, value);
  }

  // The error of a page that is not as it should be, or of a file that has
  // changed.
  absl::Status Damaged() const;

 private:
  Environment(std::unique_ptr<const LmdbFile> file, const LmdbHeader& header)
      : file_(std::move(file)), header_(header), tree_(file_->data(), header) {}

  const std::unique_ptr<const LmdbFile> file_;
  const LmdbHeader header_;  // with the database's root and entries
  const LmdbTree tree_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_H_
