// An image folder that is served as it is gives the batches of its packed
// dataset, byte by byte, however little memory it has for reading; a file that
// changes, or is no image, is a damaged sample that is named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "proto/error_detail.h"
#include "server/data_tool/commands.h"
#include "server/pipeline/engine.h"
#include "server/storage/open.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kImages = 60;

class FolderBatchesTest : public ::testing::Test {
 protected:
  FolderBatchesTest() {
    for (int i = 0; i < kImages; ++i) {
      const std::string folder =
          absl::StrCat(Images(), "/", i % 3 == 0 ? "ape" : "bee-", i % 3,
                       i % 4 == 0 ? "/deep" : "");
      std::filesystem::create_directories(folder);
      JpegKind kind;
      kind.width = 40 + i % 7 * 9;
      kind.height = 90 - i % 5 * 11;
      kind.progressive = i % 6 == 0;
      const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
      storage::WriteFile(
          absl::StrCat(folder, "/", i, ".jpg"),
          {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
    }
  }

  std::string Images() const { return folder_ / "images"; }

  std::shared_ptr<const storage::RecordSource> OpenSource(
      const std::string& uri) {
    auto source =
        storage::OpenRecordSource(uri, {.cache_dir = folder_ / "cache"});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  // `added`: the dataset is added to the running engine.
  std::unique_ptr<Engine> Serve(const std::string& uri, uint32_t threads,
                                uint32_t read_threads, bool added = false) {
    budgets_.push_back(std::make_unique<ByteBudget>(uint64_t{256} << 20));
    DatasetCatalog catalog = {{"photos", OpenSource(uri)}};
    auto engine = Engine::Create({.threads = threads,
                                  .read_threads = read_threads,
                                  .budget = budgets_.back().get(),
                                  .datasets_change = added},
                                 added ? DatasetCatalog() : catalog);
    EXPECT_TRUE(engine.ok()) << engine.status();
    if (added) {
      EXPECT_TRUE((*engine)->AddDataset("photos", catalog["photos"]).ok());
    }
    return *std::move(engine);
  }

  static std::string Text(const std::string& preset,
                          const std::string& more = "") {
    return absl::StrCat("sources { dataset: 'photos' } preset: '", preset,
                        "' seed: 9 batch_size: 8 ", more);
  }

  static absl::Status Run(Engine& engine, const std::string& text,
                          uint64_t epoch, Arrivals* arrivals) {
    const auto pipeline = engine.Open(Spec(text));
    if (!pipeline.ok()) return pipeline.status();
    StepRange range;
    range.epoch = epoch;
    range.step_count = (*pipeline)->description().steps_per_epoch();
    const auto run = engine.Start(*pipeline, range, arrivals->callbacks());
    if (!run.ok()) return run.status();
    return arrivals->AwaitDone();
  }

  // The payloads of an epoch in the order of the steps.
  static std::string Epoch(Engine& engine, const std::string& text,
                           uint64_t epoch) {
    Arrivals arrivals;
    const absl::Status status = Run(engine, text, epoch, &arrivals);
    EXPECT_TRUE(status.ok()) << status;
    std::string all;
    for (const auto& [step, batch] : arrivals.TakeBatches()) {
      all += PayloadText(batch);
    }
    return all;
  }

  std::vector<std::unique_ptr<ByteBudget>> budgets_;
  storage::TempFolder folder_;
};

TEST_F(FolderBatchesTest, AreThoseOfThePackedDataset) {
  const std::string packed_uri = absl::StrCat("lmdb:", folder_ / "packed");
  ASSERT_EQ(
      data_tool::RunDataTool({"pack", "--format=imagefolder",
                              "--input=" + Images(), "--output=" + packed_uri},
                             std::cerr),
      0);
  const std::string folder_uri = "imagefolder:" + Images();
  const auto packed = Serve(packed_uri, 2, 0);
  const auto folder = Serve(folder_uri, 2, 0);
  const auto read_ahead = Serve(folder_uri, 3, 16);
  for (const char* preset : {"imagenet_train", "imagenet_eval"}) {
    for (const uint64_t epoch : {0, 1}) {
      const std::string wanted = Epoch(*packed, Text(preset), epoch);
      EXPECT_GT(wanted.size(), 1 << 20);
      EXPECT_TRUE(Epoch(*folder, Text(preset), epoch) == wanted)
          << preset << ", epoch " << epoch;
      EXPECT_TRUE(Epoch(*read_ahead, Text(preset), epoch) == wanted)
          << preset << ", epoch " << epoch;
    }
  }
  // Names, sizes and times are no content.
  const std::string fingerprint = OpenSource(packed_uri)->info().fingerprint();
  EXPECT_NE(OpenSource(folder_uri)->info().fingerprint(), fingerprint);
  ASSERT_EQ(data_tool::RunDataTool({"index", "--input=" + Images(),
                                    "--cache_dir=" + folder_ / "cache"},
                                   std::cerr),
            0);
  EXPECT_EQ(OpenSource(folder_uri)->info().fingerprint(), fingerprint);
}

// A copy has other times, and the same content.
TEST_F(FolderBatchesTest, CopiesAgreeAfterIndexing) {
  const std::string copy = folder_ / "copy";
  std::filesystem::copy(Images(), copy,
                        std::filesystem::copy_options::recursive);
  std::vector<std::string> listed, indexed;
  for (const std::string& path : {Images(), copy}) {
    listed.push_back(OpenSource("imagefolder:" + path)->info().fingerprint());
    ASSERT_EQ(data_tool::RunDataTool({"index", "--input=" + path,
                                      "--cache_dir=" + folder_ / "cache"},
                                     std::cerr),
              0);
    indexed.push_back(OpenSource("imagefolder:" + path)->info().fingerprint());
  }
  EXPECT_NE(listed[0], listed[1]);
  EXPECT_EQ(indexed[0], indexed[1]);
}

// A file that was overwritten in place is a sample that cannot be read. The
// server once answered Unavailable, and a client of this one server asked again
// until its time was over.
TEST_F(FolderBatchesTest, AChangedFileIsADamagedSample) {
  const auto engine = Serve("imagefolder:" + Images(), 2, 4);
  const std::string file = Images() + "/ape0/deep/0.jpg";
  storage::WriteFile(file, "another file");
  Arrivals arrivals;
  const absl::Status status = Run(*engine, Text("imagenet_eval"), 0, &arrivals);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(file + " was truncated"),
                    HasSubstr("set bad_samples of the pipeline to SUBSTITUTE "
                              "or ZERO")));
  EXPECT_EQ(GetErrorDetail(status).dataset(), "photos");
  EXPECT_EQ(GetErrorDetail(status).shard(), "ape0/deep/0.jpg");
  // The job may have a rule for such samples.
  Arrivals others;
  EXPECT_TRUE(Run(*engine,
                  Text("imagenet_eval", "bad_samples { action: SUBSTITUTE }"),
                  0, &others)
                  .ok());
  const auto bad = engine->stats().recent_bad_samples;
  ASSERT_EQ(bad.size(), 1);
  EXPECT_EQ(bad[0].shard(), "ape0/deep/0.jpg");
  EXPECT_THAT(bad[0].reason(), HasSubstr("was truncated"));
}

// An empty file stopped the whole folder when it was opened.
TEST_F(FolderBatchesTest, AnEmptyFileIsADamagedSample) {
  storage::WriteFile(Images() + "/ape0/deep/12.jpg", "");
  for (const uint32_t read_threads : {0, 4}) {
    SCOPED_TRACE(read_threads);
    const auto engine = Serve("imagefolder:" + Images(), 2, read_threads);
    Arrivals arrivals;
    const absl::Status status =
        Run(*engine, Text("imagenet_eval"), 0, &arrivals);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                StartsWith("ape0/deep/12.jpg: the image is empty"));
    EXPECT_EQ(GetErrorDetail(status).shard(), "ape0/deep/12.jpg");
    for (const char* action : {"SUBSTITUTE", "ZERO"}) {
      Arrivals others;
      EXPECT_TRUE(
          Run(*engine,
              Text("imagenet_eval",
                   absl::StrCat("bad_samples { action: ", action, " }")),
              0, &others)
              .ok())
          << action;
    }
    const auto bad = engine->stats().recent_bad_samples;
    ASSERT_EQ(bad.size(), 1);
    EXPECT_EQ(bad[0].shard(), "ape0/deep/12.jpg");
  }
}

// No sample can take the place of another: the error names the first one.
TEST_F(FolderBatchesTest, AFolderWithoutAnyImageNamesAFile) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(Images())) {
    if (entry.is_regular_file()) storage::WriteFile(entry.path(), "no image");
  }
  const auto engine = Serve("imagefolder:" + Images(), 2, 4);
  Arrivals arrivals;
  const absl::Status status =
      Run(*engine, Text("imagenet_eval", "bad_samples { action: SUBSTITUTE }"),
          0, &arrivals);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(GetErrorDetail(status).shard() + ": "),
                    HasSubstr("run `millrace-data verify`"),
                    Not(HasSubstr("set bad_samples"))));
}

// Large files and little memory to read them: threads wait for each other, and
// the batches are the same.
TEST_F(FolderBatchesTest, LittleMemoryForReadingChangesNoBatch) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(Images())) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  for (const std::string& file : files) {
    // Decoders ignore what follows the image.
    std::filesystem::resize_file(
        file, 300'000 + std::filesystem::file_size(file) % 7 * 200'000);
  }
  const std::string uri = "imagefolder:" + Images();
  const std::string wanted =
      Epoch(*Serve(uri, 2, 0), Text("imagenet_train"), 0);
  ByteBudget reads(1 << 20), lists(16 << 20);
  storage::OpenSourceOptions options = {.metadata_budget = &lists,
                                        .read_budget = &reads,
                                        .cache_dir = folder_ / "cache"};
  for (const uint64_t bytes : {uint64_t{0}, reads.capacity()}) {
    options.read_bytes = bytes;
    for (const uint32_t read_threads : {0, 24}) {
      auto source = storage::OpenRecordSource(uri, options);
      ASSERT_TRUE(source.ok()) << source.status();
      ByteBudget budget(uint64_t{96} << 20);
      const auto engine = Engine::Create(
          {.threads = 3, .read_threads = read_threads, .budget = &budget},
          {{"photos", *std::move(source)}});
      ASSERT_TRUE(engine.ok()) << engine.status();
      EXPECT_TRUE(Epoch(**engine, Text("imagenet_train"), 0) == wanted)
          << bytes << " bytes, " << read_threads << " read threads";
    }
  }
}

// Also of a dataset that a lease has added: its errors named no file.
TEST_F(FolderBatchesTest, AFileThatIsNoImageIsNamed) {
  storage::WriteFile(Images() + "/bee-1/1.jpg", "no image");
  for (const bool added : {false, true}) {
    SCOPED_TRACE(added);
    const auto engine = Serve("imagefolder:" + Images(), 2, 4, added);
    Arrivals arrivals;
    const absl::Status status =
        Run(*engine, Text("imagenet_eval"), 0, &arrivals);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).shard(), "bee-1/1.jpg");
    EXPECT_EQ(GetErrorDetail(status).row(), 0);
    // The sentence is all that some programs show.
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("bee-1/1.jpg: "),
                      HasSubstr("set bad_samples of the pipeline to SUBSTITUTE "
                                "or ZERO")));
    Arrivals others;
    EXPECT_TRUE(Run(*engine,
                    Text("imagenet_eval", "bad_samples { action: SUBSTITUTE }"),
                    0, &others)
                    .ok());
    const auto bad = engine->stats().recent_bad_samples;
    ASSERT_EQ(bad.size(), 1);
    EXPECT_EQ(bad[0].shard(), "bee-1/1.jpg");
    // What a client asks for with `millrace replay`.
    const auto pipeline = engine->Open(
        Spec(Text("imagenet_eval", "bad_samples { action: SUBSTITUTE }")));
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    ExplainBatchResponse response;
    ASSERT_TRUE(
        (*pipeline)->ExplainRows({0, 0, 1, 0, 1, false}, 0, 1, &response).ok());
    EXPECT_THAT(response.explained(0).shard(), HasSubstr(".jpg"));
    EXPECT_EQ(response.explained(0).shard_row(), 0);
  }
}

}  // namespace
}  // namespace millrace::pipeline
