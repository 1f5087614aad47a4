#include "server/storage/lmdb/lmdb_tree.h"

#include <algorithm>
#include <cstring>

#include "server/storage/page_load.h"

namespace millrace::storage {
namespace {

// A page: its number u64, 2 bytes of padding, flags u16, then the end of the
// list of nodes u16 and the start of the nodes u16. An overflow page has the
// number of pages u32 instead of the two. Then follows the list of nodes (u16
// each, relative to the start of the page).
constexpr uint32_t kFlagsAt = 10;
constexpr uint32_t kListEndAt = 12;
constexpr uint32_t kOverflowPagesAt = 12;
constexpr uint32_t kPageHeaderBytes = 16;
constexpr uint16_t kBranchPage = 0x01;
constexpr uint16_t kLeafPage = 0x02;
constexpr uint16_t kOverflowPage = 0x04;
// The bits of a page's kind. The writing process uses the other bits.
constexpr uint16_t kPageKinds = 0x6f;

// A node: two u16 halves of a number, flags u16, length of the key u16, key,
// data. In a branch the number is that of the child page, with the flags as its
// top bits. In a leaf the number is the length of the value.
constexpr uint32_t kNodeHeaderBytes = 8;
constexpr uint16_t kInOverflowPages = 0x01;

// The max depth that LMDB follows; a tree of the smallest pages is not that
// deep.
constexpr int kMaxDepth = 32;

// The tree contains no meta page.
constexpr uint64_t kFirstPage = 2;
constexpr uint64_t kNoRoot = UINT64_MAX;

int Compare(absl::string_view a, absl::string_view b) {
  const int order =
      std::memcmp(a.data(), b.data(), std::min(a.size(), b.size()));
  if (order != 0) return order;
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

}  // namespace

bool LmdbTree::LoadPage(uint64_t number, Page* page) const {
  if (number < kFirstPage || number >= header_.pages) return false;
  const uint8_t* const start = file_ + number * header_.page_size;
  if (PageLoad<uint64_t>(start) != number) return false;
  const uint16_t kind = PageLoad<uint16_t>(start + kFlagsAt) & kPageKinds;
  const uint32_t list_end = PageLoad<uint16_t>(start + kListEndAt);
  if ((kind != kBranchPage && kind != kLeafPage) ||
      list_end <= kPageHeaderBytes || list_end > header_.page_size) {
    return false;
  }
  *page = {.start = start,
           .nodes = (list_end - kPageHeaderBytes) / 2,
           .is_leaf = kind == kLeafPage};
  return page->nodes > 0;
}

bool LmdbTree::LoadNode(const Page& page, uint32_t index, Node* node) const {
  const uint32_t at =
      PageLoad<uint16_t>(page.start + kPageHeaderBytes + 2 * index);
  if (at < kPageHeaderBytes + 2 * page.nodes ||
      at + kNodeHeaderBytes > header_.page_size) {
    return false;
  }
  const uint8_t* const start = page.start + at;
  const uint32_t key_bytes = PageLoad<uint16_t>(start + 6);
  const uint32_t data_at = at + kNodeHeaderBytes + key_bytes;
  if (data_at > header_.page_size) return false;
  node->key = {reinterpret_cast<const char*>(start + kNodeHeaderBytes),
               key_bytes};
  node->data = page.start + data_at;
  node->room = header_.page_size - data_at;
  node->low = PageLoad<uint16_t>(start);
  node->high = PageLoad<uint16_t>(start + 2);
  node->flags = PageLoad<uint16_t>(start + 4);
  return true;
}

bool LmdbTree::FindChild(const Page& page, absl::string_view key,
                         uint64_t* number) const {
  // The last node whose key is not greater than the wanted key. The key of the
  // first node counts as the smallest possible key.
  Node node;
  uint32_t low = 0, high = page.nodes;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (!LoadNode(page, middle, &node)) return false;
    (Compare(node.key, key) <= 0 ? low : high) = middle;
  }
  if (!LoadNode(page, low, &node)) return false;
  *number = ChildOf(node);
  return true;
}

LmdbTree::Result LmdbTree::FindInLeaf(const Page& leaf, absl::string_view key,
                                      absl::Span<const uint8_t>* value) const {
  Node node;
  uint32_t low = 0, high = leaf.nodes;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (!LoadNode(leaf, middle, &node)) return Result::kDamaged;
    const int order = Compare(node.key, key);
    if (order == 0) return LoadValue(node, value);
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return Result::kNotFound;
}

LmdbTree::Result LmdbTree::LoadPlace(const Node& node, LmdbPlace* place) const {
  const uint32_t bytes = node.low | uint32_t{node.high} << 16;
  if (node.flags == 0) {
    if (bytes > node.room) return Result::kDamaged;
    // An empty value may lie behind the last byte of the page; its place is the
    // last byte of the key, so that it is in the page.
    const uint8_t* const data = bytes == 0 ? node.data - 1 : node.data;
    *place = {.offset = static_cast<uint64_t>(data - file_), .bytes = bytes};
    return Result::kFound;
  }
  uint64_t number;
  if (node.flags != kInOverflowPages || node.room < sizeof(number)) {
    return Result::kDamaged;
  }
  number = PageLoad<uint64_t>(node.data);
  if (number < kFirstPage || number >= header_.pages) return Result::kDamaged;
  *place = {.offset = number * header_.page_size + kPageHeaderBytes,
            .bytes = bytes};
  return Result::kFound;
}

LmdbTree::Result LmdbTree::At(const LmdbPlace& place,
                              absl::Span<const uint8_t>* value) const {
  const uint64_t number = place.offset / header_.page_size;
  const uint64_t within = place.offset % header_.page_size;
  if (number < kFirstPage || number >= header_.pages) return Result::kDamaged;
  if (within == kPageHeaderBytes) {
    // A leaf has its list of nodes there, so the value is in overflow pages.
    const uint8_t* const start = file_ + number * header_.page_size;
    const uint64_t pages = PageLoad<uint32_t>(start + kOverflowPagesAt);
    if (PageLoad<uint64_t>(start) != number ||
        (PageLoad<uint16_t>(start + kFlagsAt) & kPageKinds) != kOverflowPage ||
        pages > header_.pages - number ||
        uint64_t{place.bytes} + kPageHeaderBytes > pages * header_.page_size) {
      return Result::kDamaged;
    }
  } else if (place.bytes > header_.page_size - within) {
    return Result::kDamaged;
  }
  *value = {file_ + place.offset, place.bytes};
  return Result::kFound;
}

LmdbTree::Result LmdbTree::LoadValue(const Node& node,
                                     absl::Span<const uint8_t>* value) const {
  LmdbPlace place;
  const Result result = LoadPlace(node, &place);
  return result == Result::kFound ? At(place, value) : result;
}

LmdbTree::Result LmdbTree::FindAt(const Position& position,
                                  absl::string_view key,
                                  absl::Span<const uint8_t>* value) const {
  Page leaf;
  Node first, last;
  if (position.leaf == 0 || !LoadPage(position.leaf, &leaf) || !leaf.is_leaf ||
      !LoadNode(leaf, 0, &first) || !LoadNode(leaf, leaf.nodes - 1, &last) ||
      Compare(key, first.key) < 0 || Compare(key, last.key) > 0) {
    return Result::kNotFound;
  }
  return FindInLeaf(leaf, key, value);
}

LmdbTree::Result LmdbTree::Find(absl::string_view key, Position* position,
                                absl::Span<const uint8_t>* value) const {
  if (header_.root == kNoRoot) return Result::kNotFound;
  if (FindAt(*position, key, value) == Result::kFound) return Result::kFound;
  uint64_t number = header_.root;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    Page page;
    if (!LoadPage(number, &page)) return Result::kDamaged;
    if (page.is_leaf) {
      position->leaf = number;
      return FindInLeaf(page, key, value);
    }
    if (!FindChild(page, key, &number)) return Result::kDamaged;
  }
  return Result::kDamaged;
}

}  // namespace millrace::storage
