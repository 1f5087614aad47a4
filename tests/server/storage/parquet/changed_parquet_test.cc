// Parquet files that are changed while they are read: what has changed is told
// as Unavailable, with file and cause, and is neither handed out nor taken for
// damaged samples.
//
// Before, other data of the same layout were served, and truncated files became
// zeros under the policy ZERO.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "proto/error_detail.h"
#include "proto/spec_text.h"
#include "server/pipeline/engine.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kSamples = 1600;
constexpr int64_t kValues = 625;
constexpr int64_t kRows = 8;  // of a batch

// No value is zero; `packing` tells files of the same layout apart.
int32_t Value(int64_t sample, int64_t i, int packing) {
  return static_cast<int32_t>(packing * 100'000'000 + sample * kValues + i);
}

void WriteValues(const std::string& path, int64_t first, int64_t samples,
                 int packing) {
  arrow::Int32Builder builder;
  for (int64_t sample = first; sample < first + samples; ++sample) {
    for (int64_t i = 0; i < kValues; ++i) {
      ASSERT_TRUE(builder.Append(Value(sample, i, packing)).ok());
    }
  }
  const auto type = arrow::fixed_size_list(arrow::int32(), kValues);
  const auto x = std::make_shared<arrow::FixedSizeListArray>(type, samples,
                                                             *builder.Finish());
  const auto file = *arrow::io::FileOutputStream::Open(path);
  const arrow::Status status = parquet::arrow::WriteTable(
      *arrow::Table::Make(arrow::schema({arrow::field("x", type)}), {x}),
      arrow::default_memory_pool(), file, /*chunk_size=*/50,
      parquet::WriterProperties::Builder().disable_dictionary()->build(),
      parquet::ArrowWriterProperties::Builder().store_schema()->build());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(file->Close().ok());
}

// The clock of a file system is coarse: a change is to be later.
void SetTimeBack(const std::string& path) {
  const struct timespec long_ago[2] = {{.tv_sec = 1'600'000'000},
                                       {.tv_sec = 1'600'000'000}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
}

void WriteAt(const std::string& path, size_t at, const std::string& bytes) {
  const int fd = open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)),
            static_cast<ssize_t>(bytes.size()));
  close(fd);
}

void Truncate(const std::string& path, size_t bytes) {
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(bytes)), 0);
}

struct Way {
  std::string name;
  // `path` is read and has `bytes` bytes; `spare` is another packing of the
  // same layout.
  std::function<void(const std::string& path, size_t bytes,
                     const std::string& spare)>
      change;
  // A regular expression. A file that shrinks and grows may be looked at in
  // between. Empty: the data are what they were.
  std::string cause;
};

std::vector<Way> Ways() {
  using Text = const std::string&;
  return {
      {"TruncatedToNothing", [](Text path, size_t, Text) { Truncate(path, 0); },
       "was truncated from"},
      {"TruncatedToHalf",
       [](Text path, size_t bytes, Text) { Truncate(path, bytes / 2); },
       "was truncated from"},
      {"ShrunkAndGrown",
       [](Text path, size_t bytes, Text) {
         Truncate(path, 0);
         Truncate(path, bytes);
       },
       "was (truncated|overwritten)"},
      {"OverwrittenInPlaceWithTheSameLayout",
       [](Text path, size_t bytes, Text spare) {
         const std::string other = ReadFile(spare);
         ASSERT_EQ(other.size(), bytes);
         WriteAt(path, 0, other);
       },
       "was overwritten"},
      {"OverwrittenWithZeros",
       [](Text path, size_t bytes, Text) {
         WriteAt(path, 0, std::string(bytes, '\0'));
       },
       "was overwritten"},
      {"AnotherCopiedOver",
       [](Text path, size_t, Text spare) {
         Truncate(path, 0);
         WriteAt(path, 0, ReadFile(spare));
       },
       "was (truncated|overwritten)"},
      {"Appended",
       [](Text path, size_t bytes, Text) {
         WriteAt(path, bytes, std::string(1000, 'x'));
       },
       // The kernel sets the time before the size: who looks in between sees
       // the first alone.
       "(grew from|was overwritten)"},
      {"WrittenWithItsTimeSetBack",
       [](Text path, size_t, Text spare) {
         struct stat info;
         ASSERT_EQ(stat(path.c_str(), &info), 0);
         WriteAt(path, 0, ReadFile(spare));
         const struct timespec times[2] = {info.st_atim, info.st_mtim};
         ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
       },
       "was overwritten"},
      {"ModeChanged",
       [](Text path, size_t, Text) { ASSERT_EQ(chmod(path.c_str(), 0), 0); },
       ""},
      {"Deleted",
       [](Text path, size_t, Text) { std::filesystem::remove(path); }, ""},
      {"AnotherRenamedOver",
       [](Text path, size_t, Text spare) {
         std::filesystem::rename(spare, path);
       },
       ""},
  };
}

// Where the batches of a run are taken and looked at, one after the other.
class Batches {
 public:
  pipeline::Engine::Callbacks callbacks() {
    return {[this](batch::FilledBatch batch) {
              MutexLock lock(mu_);
              batches_.push_back(std::move(batch));
              changed_.NotifyAll();
            },
            [this](absl::Status status) {
              MutexLock lock(mu_);
              done_ = true;
              status_ = std::move(status);
              changed_.NotifyAll();
            }};
  }

  // Takes one and expects what was written; false: there are no more.
  bool Take() {
    batch::FilledBatch batch;
    {
      MutexLock lock(mu_);
      while (batches_.empty() && !done_) changed_.Wait(lock);
      if (batches_.empty()) return false;
      batch = std::move(batches_.back());
      batches_.pop_back();
    }
    const auto index = Tensor<int64_t>(batch, "sample_index");
    const auto x = Tensor<int32_t>(batch, "x");
    EXPECT_EQ(x.size(), index.size() * kValues);
    for (size_t row = 0; row < index.size(); ++row) {
      for (const int64_t i : {int64_t{0}, kValues / 2, kValues - 1}) {
        EXPECT_EQ(x[row * kValues + i], Value(index[row], i, 1)) << index[row];
      }
    }
    return true;
  }

  absl::Status status() {
    MutexLock lock(mu_);
    return status_;
  }

 private:
  template <typename T>
  static std::vector<T> Tensor(const batch::FilledBatch& batch,
                               const char* name) {
    for (const TensorHeader& tensor : batch.header.tensors()) {
      if (tensor.name() != name) continue;
      std::vector<T> values(tensor.bytes() / sizeof(T));
      std::memcpy(values.data(), batch.payload->data() + tensor.offset(),
                  tensor.bytes());
      return values;
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

  Mutex mu_;
  CondVar changed_;
  std::vector<batch::FilledBatch> batches_ MR_GUARDED_BY(mu_);
  bool done_ MR_GUARDED_BY(mu_) = false;
  absl::Status status_ MR_GUARDED_BY(mu_);
};

class ChangedParquetTest : public ::testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() {
    written_ = new TempFolder;
    WriteValues(*written_ / "d", 0, kSamples, 1);
    WriteValues(*written_ / "spare", 0, kSamples, 3);
  }
  static void TearDownTestSuite() { delete written_; }

  ChangedParquetTest() {
    for (const char* name : {"d", "spare"}) {
      std::filesystem::copy_file(*written_ / name, folder_ / name);
      SetTimeBack(folder_ / name);
    }
    bytes_ = std::filesystem::file_size(path_);
  }

  // With room for a part of the row groups.
  std::shared_ptr<const RecordSource> Open(uint64_t cache_bytes = 2 << 20) {
    auto source = OpenRecordSource(
        absl::StrCat("parquet:", path_),
        {.cache_budget = &budget_, .cache_bytes = cache_bytes});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  void Change() { GetParam().change(path_, bytes_, folder_ / "spare"); }

  void ExpectCause(const absl::Status& status) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                ContainsRegex(absl::StrCat(path_, " ", GetParam().cause)));
    EXPECT_EQ(GetErrorDetail(status).stage(), "storage");
    EXPECT_EQ(GetErrorDetail(status).shard(), "d");
  }

  static inline TempFolder* written_ = nullptr;
  ByteBudget budget_{64 << 20};
  TempFolder folder_;
  const std::string path_ = folder_ / "d";
  size_t bytes_ = 0;
};

// Expects a sample's bytes to be those of packing 1.
absl::Status ReadOne(RecordReader& reader, int64_t sample) {
  return reader.Read(sample, [&](const EncodedSample& read) {
    EXPECT_EQ(read.fields[0].size(), kValues * sizeof(int32_t));
    int32_t first;
    std::memcpy(&first, read.fields[0].data(), sizeof(first));
    EXPECT_EQ(first, Value(sample, 0, 1)) << sample;
    return absl::OkStatus();
  });
}

// What a reader gives is what was opened, whatever is checked afterwards: the
// samples are decoded and kept elsewhere before that.
TEST_P(ChangedParquetTest, AReaderGivesWhatWasOpened) {
  const auto source = Open();
  const auto reader = source->NewReader();
  EXPECT_TRUE(ReadOne(**reader, 0).ok());
  Change();
  int refused = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const absl::Status status = ReadOne(**reader, i * 613 % kSamples);
    if (status.ok()) continue;
    ++refused;
    if (refused == 1) ExpectCause(status);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).sample(), -1) << "no sample is to blame";
  }
  const absl::Status files = source->CheckFilesOf({0, 1});
  if (GetParam().cause.empty()) {
    EXPECT_EQ(refused, 0);
    EXPECT_TRUE(files.ok()) << files;
  } else {
    EXPECT_GT(refused, 0);
    ExpectCause(files);
    ExpectCause(source->CheckFiles());
  }
}

// Rows that lie in the cache were right, and are refused like the others: the
// dataset is served by another server from now on.
TEST_P(ChangedParquetTest, WhatLiesInTheCacheIsRefusedToo) {
  const auto source = Open(/*cache_bytes=*/64 << 20);
  const auto reader = source->NewReader();
  for (int64_t i = 0; i < kSamples; ++i) {
    ASSERT_TRUE(ReadOne(**reader, i).ok());
  }
  Change();
  for (int64_t i = 0; i < kSamples; ++i) {
    ASSERT_TRUE(ReadOne(**reader, i).ok());
  }
  if (GetParam().cause.empty()) {
    EXPECT_TRUE(source->CheckFilesOf({0}).ok());
  } else {
    ExpectCause(source->CheckFilesOf({0}));
  }
}

// The policy that empties the rows of damaged samples is not asked.
TEST_P(ChangedParquetTest, NoRowIsEmptied) {
  pipeline::Engine::Options options;
  options.threads = 2;
  options.admission_timeout = absl::ZeroDuration();
  // Room for a part of the epoch: the run stands still while no batch is taken.
  ByteBudget memory(2 << 20);
  options.budget = &memory;
  const auto engine = pipeline::Engine::Create(options, {{"d", Open()}});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto spec = ParseSpecText(
      absl::StrCat("sources { dataset: 'd' } seed: 3 batch_size: ", kRows,
                   " bad_samples { action: ZERO }"),
      "test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto pipeline = (*engine)->Open(*spec);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  Batches batches;
  constexpr uint64_t kSteps = kSamples / kRows;
  const auto run =
      (*engine)->Start(*pipeline, {.step_count = kSteps}, batches.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(batches.Take());
  Change();
  uint64_t taken = 1;
  while (batches.Take()) ++taken;
  EXPECT_EQ((*engine)->stats().bad_samples, 0u);
  if (GetParam().cause.empty()) {
    EXPECT_TRUE(batches.status().ok()) << batches.status();
    EXPECT_EQ(taken, kSteps);
    return;
  }
  EXPECT_LT(taken, kSteps);
  ExpectCause(batches.status());
  ExpectCause((*engine)->Open(*spec).status());
}

INSTANTIATE_TEST_SUITE_P(Ways, ChangedParquetTest, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return info.param.name; });

// Of a set of many files those are asked that samples were read of.
TEST(ChangedParquetSet, OnlyTheFilesOfTheSamplesMatter) {
  TempFolder folder;
  for (int i = 0; i < 6; ++i) {
    WriteValues(folder / absl::StrCat(i, ".parquet"), i * 10, 10, 1);
    SetTimeBack(folder / absl::StrCat(i, ".parquet"));
  }
  const auto source =
      OpenRecordSource(absl::StrCat("parquet:", folder.path()), {});
  ASSERT_TRUE(source.ok()) << source.status();
  Truncate(folder / "3.parquet", 100);
  EXPECT_TRUE((*source)->CheckFilesOf({-1, 0, 5, 29, 40, 59, 60}).ok());
  const absl::Status status = (*source)->CheckFilesOf({0, 30});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetErrorDetail(status).shard(), "3.parquet");
  EXPECT_THAT(std::string(status.message()), HasSubstr("was truncated from"));
  const auto reader = (*source)->NewReader();
  EXPECT_TRUE(ReadOne(**reader, 29).ok());
  EXPECT_TRUE(absl::IsUnavailable(ReadOne(**reader, 31)));
}

}  // namespace
}  // namespace millrace::storage
