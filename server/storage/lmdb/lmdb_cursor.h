// LmdbCursor visits all keys of a database in an LMDB file in their order,
// without trusting a byte of it (lmdb_tree.h). It looks at the pages of the
// tree, not at the overflow pages of large values.
//
// It proves that the tree is whole as far as this can be seen: keys rise, and
// there are as many as the header says. A loop of pages therefore ends.
//
// One thread at a time. Owns nothing; the file's bytes outlive it.
//
//   LmdbCursor cursor(file->data(), file->header());
//   LmdbCursor::Entry entry;
//   while (cursor.Next(&entry) == LmdbCursor::Result::kEntry) ...

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_CURSOR_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_CURSOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/lmdb/lmdb_header.h"
#include "server/storage/lmdb/lmdb_tree.h"

namespace millrace::storage {

// What an entry of the unnamed database says about a named one.
struct LmdbDatabase {
  // 0: plain keys in bytewise order. Other values: another order, or several
  // values for a key (MDB_DUPSORT).
  uint16_t flags = 0;
  uint64_t entries = 0;
  uint64_t root = 0;  // as LmdbHeader::root
};

class LmdbCursor {
 public:
  enum class Result { kEntry, kEnd, kDamaged };

  struct Entry {
    absl::string_view key;  // a copy, valid until the next Next()
    LmdbPlace place;        // of the value; unset for a database
    std::optional<LmdbDatabase> database;
  };

  // `header` is that of the file, perhaps with the root and the entries of
  // another database.
  LmdbCursor(absl::Span<const uint8_t> file, const LmdbHeader& header)
      : tree_(file, header), header_(header) {}

  // After kEnd and kDamaged it must not be called again.
  Result Next(Entry* entry);

 private:
  struct Step {
    LmdbTree::Page page;
    uint32_t next = 0;  // node
  };

  // Goes from page `number` to its first leaf. False: damaged.
  bool Descend(uint64_t number);
  Result Load(const LmdbTree::Node& node, Entry* entry);

  const LmdbTree tree_;
  const LmdbHeader header_;
  bool begun_ = false;
  uint64_t seen_ = 0;  // entries
  std::string key_;    // of the last entry
  absl::InlinedVector<Step, 8> path_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_CURSOR_H_
