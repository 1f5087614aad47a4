// Rows of compressed data: the same on any number of threads, in any order, and
// also after the blocks that had them were forgotten.

#include "server/storage/hdf5/row_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "common/thread.h"
#include "server/storage/hdf5/reader_process.h"
#include "tests/server/storage/hdf5/hdf5_writer.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kRows = 96;
constexpr uint64_t kRowBytes = 1 << 20;

class RowBlocksTest : public ::testing::Test {
 protected:
  // Row i has bytes of value i + `first`, in chunks of 8 MiB.
  std::string Write(const std::string& name, uint8_t first) {
    std::vector<uint8_t> rows(kRows * kRowBytes);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<uint8_t>(i / kRowBytes + first);
    }
    const std::string path = folder_ / name;
    Hdf5Writer writer(path);
    writer.Add("x", H5T_STD_U8LE, H5T_NATIVE_UINT8, {kRows, kRowBytes},
               rows.data(), {.chunk = {8, kRowBytes}, .more = [](hid_t p) {
                               H5Pset_deflate(p, 1);
                             }});
    return path;
  }

  // Whether the row is there as it was written.
  static bool Check(RowBlocks& blocks, const std::string& path, uint64_t row,
                    uint8_t first) {
    bool same = false;
    const absl::Status read = blocks.Read(
        path, 0, row, RowBlocks::Ahead::kBlock,
        [&](absl::Span<const uint8_t> value) {
          const auto expected = static_cast<uint8_t>(row + first);
          same = value.size() == kRowBytes && value.front() == expected &&
                 value.back() == expected;
        });
    return read.ok() && same;
  }

  const TempFolder folder_;
};

TEST_F(RowBlocksTest, ThreadsReadTheSameRows) {
  const std::string path = Write("a.h5", 1);
  RowBlocks blocks;
  std::atomic<int> good = 0;
  {
    std::vector<NamedThread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("reader", [&] {
        for (uint64_t row = 0; row < kRows; ++row) {
          if (Check(blocks, path, row, 1)) ++good;
        }
      });
    }
  }
  EXPECT_EQ(good, 4 * static_cast<int>(kRows));
  // More than is kept was read since.
  static_assert(kRows * kRowBytes > RowBlocks::kKeptBytes);
  EXPECT_TRUE(Check(blocks, path, 0, 1));
}

TEST_F(RowBlocksTest, FilesFollowEachOther) {
  const std::vector<std::string> paths = {Write("a.h5", 1), Write("b.h5", 7)};
  RowBlocks blocks;
  auto process = ReaderProcess::Start(paths[0]);
  ASSERT_TRUE(process.ok()) << process.status();
  blocks.Add(*std::move(process));
  for (const uint64_t row : {0, 1, 50, 95}) {
    EXPECT_TRUE(Check(blocks, paths[0], row, 1)) << row;
    EXPECT_TRUE(Check(blocks, paths[1], row, 7)) << row;
  }
  EXPECT_FALSE(Check(blocks, folder_ / "none.h5", 0, 0));
}

}  // namespace
}  // namespace millrace::storage
