// The headers of pages are read where columns do not fit into the cache:
// without holding up readers of other columns, and once. They were read under
// the lock of the dataset, and again whenever a client opened such a pipeline.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

std::atomic<int> file_reads{0};
// Whether reads of this thread stand before storage, which is slow until it is
// opened.
thread_local bool waits_for_storage = false;

class Storage {
 public:
  void Read() {
    MutexLock lock(mu_);
    ++waiting_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(lock);
  }
  void AwaitRead() {
    MutexLock lock(mu_);
    while (waiting_ == 0) changed_.Wait(lock);
  }
  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int waiting_ MR_GUARDED_BY(mu_) = 0;
  bool open_ MR_GUARDED_BY(mu_) = false;
};

Storage& TheStorage() {
  static Storage storage;
  return storage;
}

}  // namespace

// In place of the C library's, also for Arrow: the program's own comes first.
extern "C" ssize_t CountedRead(int file, void* bytes, size_t count,
                               off_t at) __asm__("pread");
extern "C" ssize_t CountedRead(int file, void* bytes, size_t count, off_t at) {
  file_reads.fetch_add(1);
  if (waits_for_storage) TheStorage().Read();
  return syscall(SYS_pread64, file, bytes, count, at);
}

namespace {

class PageReadsTest : public ::testing::Test {
 protected:
  // A label, and an image of which the cache has no room for one.
  PageReadsTest() {
    arrow::BinaryBuilder image;
    EXPECT_TRUE(image.Append(std::string(20'000'000, '\0')).ok());
    arrow::Int64Builder label;
    EXPECT_TRUE(label.Append(7).ok());
    const auto file = *arrow::io::FileOutputStream::Open(path_);
    EXPECT_TRUE(parquet::arrow::WriteTable(
                    *arrow::Table::Make(
                        arrow::schema({arrow::field("label", arrow::int64()),
                                       arrow::field("image", arrow::binary())}),
                        {*label.Finish(), *image.Finish()}),
                    arrow::default_memory_pool(), file, 1,
                    parquet::WriterProperties::Builder()
                        .disable_dictionary()
                        ->compression(arrow::Compression::SNAPPY)
                        ->build())
                    .ok());
    EXPECT_TRUE(file->Close().ok());
    auto source = OpenRecordSource(
        absl::StrCat("parquet:", path_),
        {.cache_budget = &budget_, .cache_bytes = budget_.capacity()});
    EXPECT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
  }

  static constexpr bool kLabel = true, kImage = true;

  ByteBudget budget_{20 << 20};
  TempFolder folder_;
  const std::string path_ = folder_ / "d.parquet";
  std::unique_ptr<RecordSource> source_;
};

TEST_F(PageReadsTest, NobodyElseWaitsForThem) {
  const auto refused = source_->NewReader();
  std::thread slow([&] {
    waits_for_storage = true;
    const absl::Status status = (*refused)->UseFields({kLabel, kImage});
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  });
  TheStorage().AwaitRead();
  std::atomic<bool> done{false};
  std::thread other([&] {
    const auto reader = source_->NewReader();
    const absl::Status status = (*reader)->UseFields({kLabel, false});
    EXPECT_TRUE(status.ok()) << status;
    done = true;
  });
  for (int i = 0; i < 1000 && !done; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(done);
  TheStorage().Open();
  slow.join();
  other.join();
}

TEST_F(PageReadsTest, ARefusalIsKept) {
  const int before = file_reads;
  const absl::Status first = source_->CheckFields({kLabel, kImage});
  EXPECT_TRUE(absl::IsFailedPrecondition(first)) << first;
  const int reads = file_reads;
  EXPECT_GT(reads, before);
  EXPECT_EQ(source_->CheckFields({kLabel, kImage}), first);
  EXPECT_EQ(file_reads, reads);
  // Of the image alone it is known since the file was opened.
  EXPECT_TRUE(absl::IsFailedPrecondition(source_->CheckFields({false, true})));
  EXPECT_EQ(file_reads, reads);
  EXPECT_TRUE(source_->CheckFields({true, false}).ok());
}

}  // namespace
}  // namespace millrace::storage
