// The tree of files that LMDB has written: what LMDB finds is found, and no
// damaged page leads out of the file (run under ASan).

#include "server/storage/lmdb/lmdb_tree.h"

#include <gtest/gtest.h>
#include <lmdb.h>

#include <functional>
#include <map>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/lmdb_header.h"
#include "server/storage/mapped_file.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using Entries = std::map<std::string, std::string>;

// One transaction for every `per_transaction` entries.
void Write(const std::string& path, const Entries& entries,
           size_t per_transaction = 100) {
  MDB_env* env;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_set_mapsize(env, 256 << 20), 0);
  ASSERT_EQ(mdb_env_open(env, path.c_str(),
                         MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644),
            0);
  auto entry = entries.begin();
  while (entry != entries.end()) {
    MDB_txn* txn;
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
    MDB_dbi dbi;
    ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
    for (size_t i = 0; i < per_transaction && entry != entries.end();
         ++i, ++entry) {
      MDB_val k{.mv_size = entry->first.size(),
                .mv_data = const_cast<char*>(entry->first.data())};
      MDB_val v{.mv_size = entry->second.size(),
                .mv_data = const_cast<char*>(entry->second.data())};
      ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
    }
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }
  ASSERT_EQ(mdb_env_sync(env, 1), 0);
  mdb_env_close(env);
}

std::string RowKey(uint64_t row) { return Scalar(__builtin_bswap64(row)); }

std::string Bytes(std::mt19937_64& random, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Rows with values in the leaf, in one overflow page and in many.
Entries Rows(uint64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  Entries entries;
  for (uint64_t row = 0; row < rows; ++row) {
    const size_t bytes = random() % 16 == 0  ? random() % 20000
                         : random() % 4 == 0 ? 1900 + random() % 300
                                             : random() % 40;
    entries[RowKey(row)] = Bytes(random, bytes);
  }
  entries["millrace-metadata"] = Bytes(random, 3000);
  return entries;
}

class LmdbTreeTest : public ::testing::Test {
 protected:
  void ExpectAll(const Entries& entries, const std::string& path) {
    const auto file = LmdbFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    LmdbTree::Position position;
    for (const auto& [key, wanted] : entries) {
      const auto value = (*file)->Get(key, &position);
      ASSERT_TRUE(value.ok()) << value.status();
      ASSERT_EQ(std::string(value->begin(), value->end()), wanted);
      EXPECT_TRUE(
          absl::IsNotFound((*file)->Get(key + "+", &position).status()));
    }
    // In any order, too.
    std::mt19937_64 random(1);
    for (int i = 0; i < 500; ++i) {
      auto entry = entries.begin();
      std::advance(entry, random() % entries.size());
      const auto value = (*file)->Get(entry->first, &position);
      ASSERT_TRUE(value.ok()) << value.status();
      ASSERT_EQ(std::string(value->begin(), value->end()), entry->second);
    }
    EXPECT_TRUE(absl::IsNotFound((*file)->Get("", &position).status()));
    EXPECT_TRUE(
        absl::IsNotFound((*file)->Get(RowKey(1 << 20), &position).status()));
  }

  TempFolder folder_;
};

TEST_F(LmdbTreeTest, FindsWhatWasWritten) {
  // A tree of one leaf, of two levels and of three.
  for (const uint64_t rows : {0, 1, 2, 40, 3000}) {
    const std::string path = folder_ / absl::StrCat(rows);
    const Entries entries = Rows(rows, rows);
    Write(path, entries);
    ExpectAll(entries, path);
  }
}

TEST_F(LmdbTreeTest, FindsInATreeOfFourLevels) {
  // Long keys make branches narrow.
  std::mt19937_64 random(3);
  Entries entries;
  for (int i = 0; i < 4000; ++i) {
    entries[absl::StrCat(std::string(480, 'k'), 1'000'000 + i)] =
        Bytes(random, random() % 600);
  }
  Write(folder_ / "d", entries, 500);
  ExpectAll(entries, folder_ / "d");
}

TEST_F(LmdbTreeTest, FindsAfterRowsWereRewritten) {
  const std::string path = folder_ / "d";
  Entries entries = Rows(2000, 7);
  Write(path, entries);
  Entries again;
  std::mt19937_64 random(8);
  for (const auto& [key, value] : entries) {
    if (random() % 3 == 0) again[key] = Bytes(random, random() % 5000);
  }
  Write(path, again);
  for (const auto& [key, value] : again) entries[key] = value;
  ExpectAll(entries, path);
}

// Every page in turn is damaged: bytes, halves, all of it. LMDB's own library
// ends the process over some of these files.
TEST_F(LmdbTreeTest, NoDamageEndsTheProcess) {
  const Entries entries = Rows(100, 5);
  Write(folder_ / "d", entries);
  const std::string whole = ReadFile(folder_ / "d");
  const size_t pages = whole.size() / 4096;
  std::mt19937_64 random(9);
  size_t damaged = 0, found = 0, lost = 0;
  for (size_t page = 0; page < pages; ++page) {
    for (int way = 0; way < 12; ++way) {
      // A heap buffer of just its size: a step out of it is seen.
      std::vector<uint8_t> bytes(whole.begin(), whole.end());
      uint8_t* const at = &bytes[page * 4096];
      if (way < 8) {
        // In the header, the list of nodes or a node.
        const int changes = 1 << way / 2;
        for (int i = 0; i < changes; ++i) {
          const size_t limit = way % 2 == 0 ? 64 : 4096;
          at[random() % limit] = static_cast<uint8_t>(random());
        }
      } else if (way == 8) {
        for (int i = 0; i < 4096; ++i) at[i] = static_cast<uint8_t>(random());
      } else if (way == 9) {
        for (int i = 8; i < 4096; ++i) at[i] = 0xff;
      } else if (way == 10) {
        for (int i = 16; i < 4096; ++i) at[i] = static_cast<uint8_t>(random());
      } else {
        // Another page's content under the right number.
        const uint8_t* const other = &bytes[random() % pages * 4096];
        for (int i = 8; i < 4096; ++i) at[i] = other[i];
      }
      const auto header =
          ParseLmdbHeader(absl::MakeConstSpan(bytes).first(
                              std::min<size_t>(bytes.size(), kLmdbHeaderBytes)),
                          bytes.size());
      if (!header.ok()) continue;
      const LmdbTree tree(absl::MakeConstSpan(bytes), *header);
      LmdbTree::Position position;
      uint64_t sum = 0;
      for (const auto& [key, value] : entries) {
        absl::Span<const uint8_t> read;
        switch (tree.Find(key, &position, &read)) {
          case LmdbTree::Result::kFound:
            for (const uint8_t byte : read) sum += byte;
            ++found;
            break;
          case LmdbTree::Result::kDamaged:
            ++damaged;
            break;
          case LmdbTree::Result::kNotFound:
            ++lost;
            break;
        }
      }
      EXPECT_NE(sum, 1u);
    }
  }
  EXPECT_GT(damaged, 0u);
  EXPECT_GT(lost, 0u);
  EXPECT_GT(found, damaged);
}

// A branch that leads back to itself.
TEST_F(LmdbTreeTest, ALoopEnds) {
  Write(folder_ / "d", Rows(3000, 5));
  std::string bytes = ReadFile(folder_ / "d");
  const auto span = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const auto header = ParseLmdbHeader(span, bytes.size());
  ASSERT_TRUE(header.ok()) << header.status();
  char* const root = &bytes[header->root * 4096];
  for (int i = 0; i < (root[12] + root[13] * 256 - 16) / 2; ++i) {
    char* const node = root + static_cast<uint8_t>(root[16 + 2 * i]) +
                       static_cast<uint8_t>(root[17 + 2 * i]) * 256;
    const uint64_t number = header->root;
    std::memcpy(node, &number, 6);
  }
  const LmdbTree tree(span, *header);
  LmdbTree::Position position;
  absl::Span<const uint8_t> value;
  EXPECT_EQ(tree.Find(RowKey(17), &position, &value),
            LmdbTree::Result::kDamaged);
}

}  // namespace
}  // namespace millrace::storage
