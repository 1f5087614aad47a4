// A file of very many columns opens in work that grows with their number, not
// with its square: 30,000 columns took hours. The work is counted in
// allocations, which depend on no clock.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace {

std::atomic<uint64_t> allocations{0};

void* Counted(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Counted(bytes); }
void* operator new[](size_t bytes) { return Counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace millrace::storage {
namespace {

class WideSchemaTest : public ::testing::Test {
 protected:
  std::string Write(int columns) const {
    arrow::Int32Builder builder;
    EXPECT_TRUE(builder.Append(7).ok());
    const std::shared_ptr<arrow::Array> values = *builder.Finish();
    arrow::FieldVector fields;
    for (int i = 0; i < columns; ++i) {
      fields.push_back(arrow::field(absl::StrCat("f", i), values->type()));
    }
    const std::string path = folder_ / absl::StrCat(columns, ".parquet");
    const auto out = *arrow::io::FileOutputStream::Open(path);
    EXPECT_TRUE(
        parquet::arrow::WriteTable(
            *arrow::Table::Make(arrow::schema(fields),
                                arrow::ArrayVector(fields.size(), values)),
            arrow::default_memory_pool(), out, 1)
            .ok());
    EXPECT_TRUE(out->Close().ok());
    return "parquet:" + path;
  }

  static uint64_t AllocationsToOpen(const std::string& uri, int columns) {
    const uint64_t before = allocations;
    const auto source = OpenRecordSource(uri, {});
    const uint64_t opened = allocations - before;
    EXPECT_TRUE(source.ok()) << source.status();
    if (source.ok()) {
      EXPECT_EQ((*source)->info().schema().fields_size(), columns);
    }
    return opened;
  }

  TempFolder folder_;
};

TEST_F(WideSchemaTest, OpensInWorkThatGrowsWithTheColumns) {
  constexpr int kFew = 200;
  constexpr int kMany = 10 * kFew;
  const std::string few = Write(kFew);
  const std::string many = Write(kMany);
  AllocationsToOpen(few, kFew);  // what is made once
  const uint64_t of_few = AllocationsToOpen(few, kFew);
  const uint64_t of_many = AllocationsToOpen(many, kMany);
  // Ten times; a hundred times when each column walks all of them.
  EXPECT_LT(of_many, 15 * of_few) << of_few;
}

}  // namespace
}  // namespace millrace::storage
