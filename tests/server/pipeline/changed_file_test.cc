// Files that are changed while batches are read of them: the process lives, the
// job is told UNAVAILABLE with file and cause, no batch of changed bytes is
// handed out, and other datasets are served on.
//
// Eight of the first sixteen ways ended the process.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "server/storage/open.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::pipeline {
namespace {

using ::testing::ContainsRegex;

constexpr int64_t kSamples = 1600;
constexpr int64_t kTensorBytes = 2500;
constexpr uint64_t kRows = 8;

// The bytes of a sample, without a zero; `packing` tells two datasets of the
// same shape apart.
std::string BytesOf(int64_t sample, int packing) {
  std::string bytes(kTensorBytes, '\0');
  for (int64_t at = 0; at < kTensorBytes; ++at) {
    bytes[at] =
        static_cast<char>(1 + (sample * 31 + at * 7 + packing * 101) % 255);
  }
  return bytes;
}

void PackTensors(const std::string& path, int64_t samples, int packing) {
  DatasetInfo info;
  info.set_samples(samples);
  Field& x = *info.mutable_schema()->add_fields();
  x.set_name("x");
  x.set_kind(FIELD_KIND_TENSOR);
  x.set_dtype(DTYPE_UINT8);
  x.add_shape(kTensorBytes);
  storage::Samples all;
  for (int64_t i = 0; i < samples; ++i) {
    all.push_back({BytesOf(i, packing)});
  }
  const auto packed = storage::Pack(absl::StrCat("lmdb:", path), info, all,
                                    {.overwrite = true});
  ASSERT_TRUE(packed.ok()) << packed.status();
}

void WriteAt(const std::string& path, off_t at, const std::string& bytes) {
  const int fd = open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), at),
            static_cast<ssize_t>(bytes.size()));
  close(fd);
}

void Truncate(const std::string& path, uint64_t bytes) {
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(bytes)), 0);
}

std::string Noise(size_t bytes) {
  std::mt19937_64 random(11);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// As `cp from to`: the file is cut to nothing and written anew.
void CopyOver(const std::string& to, const std::string& bytes) {
  Truncate(to, 0);
  WriteAt(to, 0, bytes);
}

struct Way {
  std::string name;
  // `path` is served; `spare` is another packing of the same shape, `larger`
  // one with more samples.
  std::function<void(const std::string& path, const std::string& whole,
                     const storage::TempFolder& folder)>
      change;
  // A regular expression. A file that shrinks and grows may be looked at in
  // between. Empty: the data are what they were.
  std::string cause;
};

std::vector<Way> Ways() {
  using Path = const std::string&;
  using Folder = const storage::TempFolder&;
  return {
      {"TruncatedToNothing", [](Path path, Path, Folder) { Truncate(path, 0); },
       "was truncated"},
      {"TruncatedToOnePage",
       [](Path path, Path, Folder) { Truncate(path, 4096); }, "was truncated"},
      {"TruncatedToHalf",
       [](Path path, Path whole, Folder) { Truncate(path, whole.size() / 2); },
       "was truncated"},
      {"TruncatedByOnePage",
       [](Path path, Path whole, Folder) {
         Truncate(path, whole.size() - 4096);
       },
       "was truncated"},
      {"OverwrittenWithZeros",
       [](Path path, Path whole, Folder) {
         WriteAt(path, 0, std::string(whole.size(), '\0'));
       },
       "was overwritten"},
      {"OverwrittenWithNoise",
       [](Path path, Path whole, Folder) {
         WriteAt(path, 0, Noise(whole.size()));
       },
       "was overwritten"},
      {"AnotherPackingCopiedOver",
       [](Path path, Path, Folder folder) {
         CopyOver(path, storage::ReadFile(folder / "spare"));
       },
       "was (truncated|overwritten)"},
      {"ALargerPackingCopiedOver",
       [](Path path, Path, Folder folder) {
         CopyOver(path, storage::ReadFile(folder / "larger"));
       },
       "(was truncated|grew) from"},
      {"ItselfCopiedOver",
       [](Path path, Path whole, Folder) { CopyOver(path, whole); },
       "was (truncated|overwritten)"},
      {"ShrunkAndGrown",
       [](Path path, Path whole, Folder) {
         Truncate(path, 0);
         Truncate(path, whole.size());
       },
       "was (truncated|overwritten)"},
      {"Appended",
       [](Path path, Path whole, Folder) {
         WriteAt(path, static_cast<off_t>(whole.size()), Noise(100'000));
       },
       // The kernel sets the time of modification before the size.
       "(grew from|was overwritten)"},
      {"MetaPagesDamaged",
       [](Path path, Path, Folder) { WriteAt(path, 0, Noise(8192)); },
       "was overwritten"},
      {"EveryOtherPageDamaged",
       [](Path path, Path whole, Folder) {
         for (size_t at = 8192; at < whole.size(); at += 8192) {
           WriteAt(path, static_cast<off_t>(at), Noise(4096));
         }
       },
       "was overwritten"},
      {"WrittenWithItsTimeSetBack",
       [](Path path, Path whole, Folder) {
         struct stat info;
         ASSERT_EQ(stat(path.c_str(), &info), 0);
         WriteAt(path, 0, Noise(whole.size()));
         const struct timespec times[2] = {info.st_atim, info.st_mtim};
         ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
       },
       "was overwritten"},
      {"ModeChanged",
       [](Path path, Path, Folder) { ASSERT_EQ(chmod(path.c_str(), 0), 0); },
       ""},
      {"Deleted",
       [](Path path, Path, Folder) { std::filesystem::remove(path); }, ""},
      {"AnotherRenamedOver",
       [](Path path, Path, Folder folder) {
         std::filesystem::rename(folder / "spare", path);
       },
       ""},
      {"PackedAnew", [](Path path, Path, Folder) { PackTensors(path, 70, 5); },
       ""},
      {"MovedAway",
       [](Path path, Path, Folder) {
         std::filesystem::rename(path, path + ".old");
       },
       ""},
  };
}

class ChangedFileTest : public EngineFixture,
                        public ::testing::WithParamInterface<Way> {
 protected:
  static void SetUpTestSuite() {
    packed_ = new storage::TempFolder;
    PackTensors(*packed_ / "changed", kSamples, 1);
    PackTensors(*packed_ / "other", kSamples, 2);
    PackTensors(*packed_ / "spare", kSamples, 3);
    PackTensors(*packed_ / "larger", kSamples + 100, 4);
  }
  static void TearDownTestSuite() { delete packed_; }

  ChangedFileTest() {
    for (const char* name : {"changed", "other", "spare", "larger"}) {
      std::filesystem::copy_file(*packed_ / name, folder_ / name);
    }
    whole_ = storage::ReadFile(path_);
    DatasetCatalog catalog;
    for (const char* name : {"changed", "other"}) {
      auto source =
          storage::OpenRecordSource(absl::StrCat("lmdb:", folder_ / name), {});
      EXPECT_TRUE(source.ok()) << source.status();
      catalog[name] = *std::move(source);
    }
    Engine::Options options;
    options.threads = 2;
    options.admission_timeout = absl::ZeroDuration();
    // Room for half an epoch: it stands still while no batch is taken.
    engine_ = Create(options, std::move(catalog), 2 << 20);
  }

  static std::string Text(const std::string& dataset,
                          const std::string& more = "") {
    return absl::StrCat("sources { dataset: '", dataset,
                        "' } seed: 3 batch_size: ", kRows, " ", more);
  }

  // Takes batches, which must hold what was packed, until the run is done.
  static absl::Status TakeAll(Arrivals& arrivals, int packing,
                              uint64_t* batches) {
    while (true) {
      batch::FilledBatch batch;
      if (!arrivals.AwaitBatchOrDone(&batch)) return arrivals.AwaitDone();
      ExpectPacked(batch, packing);
      ++*batches;
    }
  }

  static void ExpectPacked(const batch::FilledBatch& batch, int packing) {
    const auto index = TensorValues<int64_t>(batch, "sample_index");
    const auto x = TensorValues<uint8_t>(batch, "x");
    ASSERT_EQ(x.size(), index.size() * kTensorBytes);
    for (size_t row = 0; row < index.size(); ++row) {
      const std::string wanted = BytesOf(index[row], packing);
      ASSERT_EQ(
          std::memcmp(&x[row * kTensorBytes], wanted.data(), wanted.size()), 0)
          << "sample " << index[row];
    }
  }

  absl::Status OpenStatus(const std::string& dataset) {
    return engine_->Open(Spec(Text(dataset))).status();
  }

  static inline storage::TempFolder* packed_ = nullptr;
  storage::TempFolder folder_;
  const std::string path_ = folder_ / "changed";
  std::string whole_;
  std::unique_ptr<Engine> engine_;
};

// With the policy that would take another sample for each damaged one, too: a
// file that has changed is no damaged sample.
TEST_P(ChangedFileTest, WhileBatchesAreRead) {
  const Way& way = GetParam();
  const auto pipeline =
      Open(*engine_, Text("changed", "bad_samples { action: SUBSTITUTE }"));
  const auto other = Open(*engine_, Text("other"));
  const uint64_t steps = kSamples / kRows;
  Arrivals arrivals, others;
  const auto run = engine_->Start(pipeline, {0, 0, steps, 0, 1, false},
                                  arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  ExpectPacked(arrivals.AwaitBatch(), 1);

  way.change(path_, whole_, folder_);
  if (HasFatalFailure()) return;
  // Only now: of two epochs that stand still one may have all of the memory.
  const auto other_run =
      engine_->Start(other, {0, 0, steps, 0, 1, false}, others.callbacks());
  ASSERT_TRUE(other_run.ok()) << other_run.status();
  uint64_t batches = 1, other_batches = 0;
  std::thread take_others([&] {
    const absl::Status status = TakeAll(others, 2, &other_batches);
    EXPECT_TRUE(status.ok()) << status;
  });
  const absl::Status status = TakeAll(arrivals, 1, &batches);
  take_others.join();
  EXPECT_EQ(other_batches, steps);
  EXPECT_TRUE(OpenStatus("other").ok());
  EXPECT_TRUE(engine_->catalog().at("other")->CheckFiles().ok());
  EXPECT_EQ(engine_->stats().bad_samples, 0u);

  if (way.cause.empty()) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(batches, steps);
    EXPECT_TRUE(OpenStatus("changed").ok());
    return;
  }
  EXPECT_LT(batches, steps);
  const absl::Status opened = OpenStatus("changed");
  const absl::Status files = engine_->catalog().at("changed")->CheckFiles();
  for (const absl::Status& each : {status, opened, files}) {
    EXPECT_TRUE(absl::IsUnavailable(each)) << each;
    EXPECT_THAT(std::string(each.message()),
                ContainsRegex(absl::StrCat(path_, " ", way.cause)));
    EXPECT_EQ(GetErrorDetail(each).stage(), "storage");
    EXPECT_EQ(GetErrorDetail(each).shard(), "changed");
  }
  EXPECT_EQ(GetErrorDetail(status).dataset(), "changed");
}

// What is opened and what is explained is checked like what is sent.
TEST_P(ChangedFileTest, WithoutABatch) {
  const Way& way = GetParam();
  const auto pipeline = Open(*engine_, Text("changed"));
  way.change(path_, whole_, folder_);
  if (HasFatalFailure()) return;
  ExplainBatchResponse response;
  for (const absl::Status& status :
       {pipeline->ExplainRows({0, 3, 1, 0, 1, false}, 0, kRows, &response),
        OpenStatus("changed")}) {
    EXPECT_EQ(status.ok(), way.cause.empty()) << status;
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  }
  EXPECT_TRUE(OpenStatus("other").ok());
}

INSTANTIATE_TEST_SUITE_P(Ways, ChangedFileTest, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace millrace::pipeline
