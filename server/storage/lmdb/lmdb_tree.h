// LmdbTree finds values in the B+ tree of an LMDB file without trusting a byte
// of it: every page number, offset and length is compared with its bounds
// before it is used. LMDB's own library trusts its files, and a damaged or
// changing file crashes the process; so the library writes shards but does not
// read them.
//
// It does not check that the tree is complete: a key that a damaged page hides
// is not found; LmdbCursor (lmdb_cursor.h) visits all keys. It reads LMDB 0.9's
// data format 1: a database of plain keys in bytewise order, which is the
// unnamed one unless the header has the root of another.
//
// Immutable, thread-safe. Owns nothing; the bytes outlive it.
//
//   const LmdbTree tree(file->data(), header);
//   LmdbTree::Position position;  // of one reader
//   absl::Span<const uint8_t> value;
//   if (tree.Find(key, &position, &value) == LmdbTree::Result::kFound) ...

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_TREE_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_TREE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/lmdb/lmdb_header.h"

namespace millrace::storage {

// Where a value lies in the file.
struct LmdbPlace {
  uint64_t offset = 0;  // in bytes
  uint32_t bytes = 0;
};

class LmdbTree {
 public:
  enum class Result { kFound, kNotFound, kDamaged };

  // Where a reader stands: its next look-up begins there, which makes
  // neighbours cheap. Belongs to one thread at a time.
  struct Position {
    uint64_t leaf = 0;  // number of a page; 0: none
  };

  // `header` is that of the file and has been compared with its size.
  LmdbTree(absl::Span<const uint8_t> file, const LmdbHeader& header)
      : file_(file.data()), header_(header) {}

  // The value where it lies in the file.
  Result Find(absl::string_view key, Position* position,
              absl::Span<const uint8_t>* value) const;

  // The value at a place that a cursor found. kDamaged: the place holds no
  // value of this size any more.
  Result At(const LmdbPlace& place, absl::Span<const uint8_t>* value) const;

 private:
  friend class LmdbCursor;

  struct Page {
    const uint8_t* start = nullptr;
    uint32_t nodes = 0;
    bool is_leaf = false;
  };
  struct Node {
    absl::string_view key;
    const uint8_t* data = nullptr;  // behind the key
    uint32_t room = 0;              // bytes from there to the end of the page
    uint16_t low = 0, high = 0, flags = 0;
  };

  // The page that a node of a branch leads to.
  static uint64_t ChildOf(const Node& node) {
    return node.low | uint64_t{node.high} << 16 | uint64_t{node.flags} << 32;
  }
  // False: damaged.
  bool LoadPage(uint64_t number, Page* page) const;
  bool LoadNode(const Page& page, uint32_t index, Node* node) const;
  // The child that `key` lies under.
  bool FindChild(const Page& page, absl::string_view key,
                 uint64_t* number) const;
  Result FindInLeaf(const Page& leaf, absl::string_view key,
                    absl::Span<const uint8_t>* value) const;
  // kNotFound: the leaf at `position` cannot tell.
  Result FindAt(const Position& position, absl::string_view key,
                absl::Span<const uint8_t>* value) const;
  Result LoadValue(const Node& node, absl::Span<const uint8_t>* value) const;
  // The bytes of a leaf's value without a look at its overflow pages.
  Result LoadPlace(const Node& node, LmdbPlace* place) const;

  const uint8_t* const file_;
  const LmdbHeader header_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_TREE_H_
