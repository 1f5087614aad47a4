// A cursor over trees that LMDB has written: every entry in order, no damage
// leads out of the file or into a loop (run under ASan).

#include "server/storage/lmdb/lmdb_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/lmdb_header.h"
#include "server/storage/lmdb/lmdb_tree.h"
#include "tests/server/storage/foreign_lmdb/environment_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

// Keys and values of different lengths, in any order, some of them twice.
Entries SomeEntries(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Entries entries;
  for (int i = 0; i < count; ++i) {
    const size_t bytes = random() % 8 == 0 ? random() % 9000 : random() % 50;
    entries.emplace_back(
        absl::StrCat(std::string(random() % 60, 'k'), random() % 100'000),
        std::string(bytes, static_cast<char>('a' + i % 26)));
  }
  return entries;
}

class LmdbCursorTest : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(LmdbCursorTest, VisitsWhatWasWrittenInOrder) {
  for (const int count : {0, 1, 50, 4000}) {
    const std::string path = folder_ / absl::StrCat(count);
    // The second transaction overwrites some.
    const Entries first = SomeEntries(count, 1);
    const Entries second = SomeEntries(count / 2, 2);
    WriteEnvironment(path, first);
    WriteEnvironment(path, second);
    std::map<std::string, std::string> expected(first.begin(), first.end());
    for (const auto& [key, value] : first) expected[key] = value;
    for (const auto& [key, value] : second) expected[key] = value;
    const auto file = LmdbFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    LmdbCursor cursor((*file)->data(), (*file)->header());
    LmdbCursor::Entry entry;
    for (const auto& [key, value] : expected) {
      ASSERT_EQ(cursor.Next(&entry), LmdbCursor::Result::kEntry);
      EXPECT_EQ(entry.key, key);
      EXPECT_FALSE(entry.database.has_value());
      absl::Span<const uint8_t> bytes;
      ASSERT_EQ((*file)->TryAt(entry.place, &bytes), LmdbTree::Result::kFound);
      EXPECT_EQ(std::string(bytes.begin(), bytes.end()), value);
    }
    EXPECT_EQ(cursor.Next(&entry), LmdbCursor::Result::kEnd);
  }
}

TEST_F(LmdbCursorTest, NamedDatabasesAreEntriesWithARoot) {
  WriteEnvironment(folder_ / "d", {{"x", "1"}, {"y", "2"}}, {.database = "n"});
  const auto file = LmdbFile::Open(folder_ / "d");
  ASSERT_TRUE(file.ok()) << file.status();
  LmdbCursor cursor((*file)->data(), (*file)->header());
  LmdbCursor::Entry entry;
  ASSERT_EQ(cursor.Next(&entry), LmdbCursor::Result::kEntry);
  EXPECT_EQ(entry.key, "n");
  ASSERT_TRUE(entry.database.has_value());
  EXPECT_EQ(entry.database->entries, 2u);
  LmdbHeader inner = (*file)->header();
  inner.root = entry.database->root;
  inner.entries = entry.database->entries;
  LmdbCursor named((*file)->data(), inner);
  ASSERT_EQ(named.Next(&entry), LmdbCursor::Result::kEntry);
  EXPECT_EQ(entry.key, "x");
}

TEST_F(LmdbCursorTest, AnotherNumberOfEntriesIsDamage) {
  WriteEnvironment(folder_ / "d", {{"x", "1"}, {"y", "2"}});
  const auto file = LmdbFile::Open(folder_ / "d");
  for (const uint64_t entries : {1, 3}) {
    LmdbHeader header = (*file)->header();
    header.entries = entries;
    LmdbCursor cursor((*file)->data(), header);
    LmdbCursor::Entry entry;
    LmdbCursor::Result result = LmdbCursor::Result::kEntry;
    while (result == LmdbCursor::Result::kEntry) result = cursor.Next(&entry);
    EXPECT_EQ(result, LmdbCursor::Result::kDamaged);
  }
}

// Each page in turn is damaged, or replaced by another.
TEST_F(LmdbCursorTest, NoDamageEndsTheProcess) {
  WriteEnvironment(folder_ / "d", SomeEntries(400, 5));
  const std::string whole = ReadFile(folder_ / "d");
  std::mt19937_64 random(9);
  int damaged = 0, whole_trees = 0;
  for (size_t page = 0; page < whole.size() / 4096; ++page) {
    for (int way = 0; way < 10; ++way) {
      // A heap buffer of just its size: a step out of it is seen.
      std::vector<uint8_t> bytes(whole.begin(), whole.end());
      uint8_t* const at = &bytes[page * 4096];
      if (way < 8) {
        for (int i = 0; i < 1 << way / 2; ++i) {
          at[random() % (way % 2 == 0 ? 64 : 4096)] =
              static_cast<uint8_t>(random());
        }
      } else {
        const uint8_t* const other =
            &bytes[random() % (whole.size() / 4096) * 4096];
        for (int i = way == 8 ? 8 : 10; i < 4096; ++i) at[i] = other[i];
      }
      const auto header =
          ParseLmdbHeader(absl::MakeConstSpan(bytes).first(
                              std::min<size_t>(bytes.size(), kLmdbHeaderBytes)),
                          bytes.size());
      if (!header.ok()) continue;
      const LmdbTree tree(absl::MakeConstSpan(bytes), *header);
      LmdbCursor cursor(absl::MakeConstSpan(bytes), *header);
      LmdbCursor::Entry entry;
      uint64_t sum = 0, seen = 0;
      LmdbCursor::Result result;
      while ((result = cursor.Next(&entry)) == LmdbCursor::Result::kEntry) {
        ++seen;
        absl::Span<const uint8_t> value;
        if (tree.At(entry.place, &value) == LmdbTree::Result::kFound) {
          for (const uint8_t byte : value) sum += byte;
        }
      }
      EXPECT_LE(seen, header->entries);
      EXPECT_NE(sum, 1u);
      ++(result == LmdbCursor::Result::kDamaged ? damaged : whole_trees);
    }
  }
  EXPECT_GT(damaged, 20);
  EXPECT_GT(whole_trees, 20);
}

// All children of the root are the root.
TEST_F(LmdbCursorTest, ALoopEnds) {
  WriteEnvironment(folder_ / "d", SomeEntries(3000, 5));
  std::string bytes = ReadFile(folder_ / "d");
  const auto span = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const auto header = ParseLmdbHeader(span, bytes.size());
  ASSERT_TRUE(header.ok()) << header.status();
  char* const root = &bytes[header->root * 4096];
  for (int i = 0; i < (root[12] + root[13] * 256 - 16) / 2; ++i) {
    char* const node = root + static_cast<uint8_t>(root[16 + 2 * i]) +
                       static_cast<uint8_t>(root[17 + 2 * i]) * 256;
    std::memcpy(node, &header->root, 6);
  }
  LmdbCursor cursor(span, *header);
  LmdbCursor::Entry entry;
  EXPECT_EQ(cursor.Next(&entry), LmdbCursor::Result::kDamaged);
}

}  // namespace
}  // namespace millrace::storage
