#include "server/storage/lmdb/lmdb_cursor.h"

#include <cstddef>

#include "server/storage/page_load.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kFirstPage = 2;
constexpr uint64_t kNoRoot = UINT64_MAX;
constexpr size_t kMaxDepth = 32;

// The value of such a leaf node is the record of a named database: u32, flags
// u16, depth u16, three counts of pages u64, entries u64, root u64.
constexpr uint16_t kDatabaseNode = 0x02;
constexpr uint32_t kDatabaseBytes = 48;
constexpr uint32_t kFlagsAt = 4;
constexpr uint32_t kEntriesAt = 32;
constexpr uint32_t kRootAt = 40;

}  // namespace

bool LmdbCursor::Descend(uint64_t number) {
  while (path_.size() < kMaxDepth) {
    Step step;
    if (!tree_.LoadPage(number, &step.page)) return false;
    if (step.page.is_leaf) {
      path_.push_back(step);
      return true;
    }
    LmdbTree::Node node;
    if (!tree_.LoadNode(step.page, 0, &node)) return false;
    step.next = 1;
    path_.push_back(step);
    number = LmdbTree::ChildOf(node);
  }
  return false;
}

LmdbCursor::Result LmdbCursor::Load(const LmdbTree::Node& node, Entry* entry) {
  // Copied before it is compared: the file may change.
  const std::string key(node.key);
  // The first key may be empty in theory, and LMDB never writes one.
  if (key.empty() || key <= key_ || ++seen_ > header_.entries) {
    return Result::kDamaged;
  }
  key_ = key;
  entry->key = key_;
  entry->place = {};
  entry->database.reset();
  if (node.flags != kDatabaseNode) {
    return tree_.LoadPlace(node, &entry->place) == LmdbTree::Result::kFound
               ? Result::kEntry
               : Result::kDamaged;
  }
  const uint32_t bytes = node.low | uint32_t{node.high} << 16;
  if (bytes != kDatabaseBytes || node.room < bytes) return Result::kDamaged;
  LmdbDatabase database{.flags = PageLoad<uint16_t>(node.data + kFlagsAt),
                        .entries = PageLoad<uint64_t>(node.data + kEntriesAt),
                        .root = PageLoad<uint64_t>(node.data + kRootAt)};
  if (database.root != kNoRoot &&
      (database.root < kFirstPage || database.root >= header_.pages)) {
    return Result::kDamaged;
  }
  entry->database = database;
  return Result::kEntry;
}

LmdbCursor::Result LmdbCursor::Next(Entry* entry) {
  if (!begun_) {
    begun_ = true;
    if (header_.root != kNoRoot && !Descend(header_.root)) {
      return Result::kDamaged;
    }
  }
  while (!path_.empty()) {
    Step& step = path_.back();
    if (step.next == step.page.nodes) {
      path_.pop_back();
      continue;
    }
    LmdbTree::Node node;
    if (!tree_.LoadNode(step.page, step.next++, &node)) return Result::kDamaged;
    if (step.page.is_leaf) return Load(node, entry);
    if (!Descend(LmdbTree::ChildOf(node))) return Result::kDamaged;
  }
  return seen_ == header_.entries ? Result::kEnd : Result::kDamaged;
}

}  // namespace millrace::storage
