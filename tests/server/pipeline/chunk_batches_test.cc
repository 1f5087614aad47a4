// MDS and LitData folders that are served as they are give the batches of the
// same photographs in an LMDB, byte by byte, on any number of threads; with
// their content indexed, they have its fingerprint, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "server/pipeline/engine.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/extents/extent_formats.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/open.h"
#include "server/storage/unpack/unpacked_objects.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr int kImages = 8;
constexpr int kClasses = 3;

// Datasets that the libraries' own writers made of the same files.
struct Chunks {
  const char* scheme;
  const char* path;
};
constexpr Chunks kChunks[] = {
    {"mds", "tests/testdata/mds/photos"},
    {"mds", "tests/testdata/mds/photos_zstd"},
    {"litdata", "tests/testdata/litdata/photos"},
    {"litdata", "tests/testdata/litdata/photos_0_2_20"},
    {"litdata", "tests/testdata/litdata/tuples"},
};

class ChunkBatchesTest : public ::testing::Test {
 protected:
  // Packs the photographs.
  std::string PackedUri() {
    DatasetInfo info;
    info.set_samples(kImages);
    Field& image = *info.mutable_schema()->add_fields();
    image.set_name("image");
    image.set_kind(FIELD_KIND_ENCODED_IMAGE);
    Field& label = *info.mutable_schema()->add_fields();
    label.set_name("label");
    label.set_kind(FIELD_KIND_TENSOR);
    label.set_dtype(DTYPE_INT64);
    label.set_num_classes(kClasses);
    storage::Samples samples;
    for (int64_t i = 0; i < kImages; ++i) {
      samples.push_back({storage::ReadFile(absl::StrCat(
                             "tests/testdata/images/exif_", i + 1, ".jpg")),
                         storage::Scalar<int64_t>(i % kClasses)});
    }
    const std::string uri = absl::StrCat("lmdb:", folder_ / "packed.lmdb");
    const auto packed = storage::Pack(uri, info, samples);
    EXPECT_TRUE(packed.ok()) << packed.status();
    return uri;
  }

  std::shared_ptr<const storage::RecordSource> OpenSource(
      const std::string& uri) {
    auto source =
        storage::OpenRecordSource(uri, {.cache_dir = folder_ / "cache"});
    EXPECT_TRUE(source.ok()) << uri << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }

  // Payloads of an epoch in the order of the steps.
  std::string Epoch(const std::string& uri, const std::string& preset,
                    uint32_t threads, uint32_t read_threads) {
    ByteBudget budget(uint64_t{256} << 20);
    const auto engine = Engine::Create(
        {.threads = threads, .read_threads = read_threads, .budget = &budget},
        {{"photos", OpenSource(uri)}});
    EXPECT_TRUE(engine.ok()) << engine.status();
    const auto pipeline = (*engine)->Open(
        Spec(absl::StrCat("sources { dataset: 'photos' } preset: '", preset,
                          "' seed: 9 batch_size: 4")));
    EXPECT_TRUE(pipeline.ok()) << uri << pipeline.status();
    if (!pipeline.ok()) return "";
    StepRange range;
    range.step_count = (*pipeline)->description().steps_per_epoch();
    Arrivals arrivals;
    const auto run = (*engine)->Start(*pipeline, range, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    const absl::Status status = arrivals.AwaitDone();
    EXPECT_TRUE(status.ok()) << uri << status;
    std::string all;
    for (const auto& [step, batch] : arrivals.TakeBatches()) {
      all += PayloadText(batch);
    }
    return all;
  }

  // Reads the content of all samples into the index of the cache folder.
  void Index(const Chunks& chunks) {
    storage::UnpackedObjects objects(folder_ / "cache");
    const auto uri = storage::ExtentUri::Parse(chunks.scheme, chunks.path);
    ASSERT_TRUE(uri.ok()) << uri.status();
    std::string file;
    const auto index = storage::MakeExtentIndex(
        *storage::FindExtentFormat(chunks.scheme), *uri, objects,
        folder_ / "cache", {.content = true}, &file);
    ASSERT_TRUE(index.ok()) << index.status();
  }

  storage::TempFolder folder_;
};

std::string UriOf(const Chunks& chunks) {
  return absl::StrCat(chunks.scheme, ":", chunks.path);
}

TEST_F(ChunkBatchesTest, AreThoseOfThePackedDataset) {
  const std::string packed = PackedUri();
  for (const char* preset : {"imagenet_train", "imagenet_eval"}) {
    const std::string wanted = Epoch(packed, preset, 1, 0);
    EXPECT_GT(wanted.size(), 1 << 20);
    for (const Chunks& chunks : kChunks) {
      // The type of labels in a batch follows the number of classes.
      const std::string uri = UriOf(chunks) + "?num_classes=3";
      EXPECT_TRUE(Epoch(uri, preset, 1, 0) == wanted) << uri << preset;
      EXPECT_TRUE(Epoch(uri, preset, 3, 8) == wanted) << uri << preset;
    }
  }
}

TEST_F(ChunkBatchesTest, WithTheirContentIndexedTheyAreThePackedDataset) {
  const std::string packed = PackedUri();
  const std::string wanted = OpenSource(packed)->info().fingerprint();
  const std::string batches = Epoch(packed, "imagenet_train", 2, 0);
  for (const Chunks& chunks : kChunks) {
    const std::string uri = UriOf(chunks);
    EXPECT_NE(OpenSource(uri)->info().fingerprint(), wanted) << uri;
    Index(chunks);
    const auto source = OpenSource(uri);
    EXPECT_EQ(source->info().fingerprint(), wanted) << uri;
    EXPECT_EQ(source->info().format(), chunks.scheme);
    EXPECT_EQ(source->info().schema().fields(1).num_classes(), kClasses);
    EXPECT_TRUE(Epoch(uri, "imagenet_train", 2, 4) == batches) << uri;
  }
}

TEST_F(ChunkBatchesTest, OptionsAndErrorsComeWithTheUri) {
  const auto refused = [](const std::string& uri) {
    return storage::OpenRecordSource(uri, {.cache_dir = "off"}).status();
  };
  EXPECT_THAT(
      std::string(
          refused("mds:tests/testdata/mds/photos?label=image").message()),
      HasSubstr("shard.00000.mds: option label=image: a label is one "
                "integer, and the column holds none"));
  EXPECT_THAT(
      std::string(
          refused("litdata:tests/testdata/litdata/photos?lable=x").message()),
      HasSubstr("litdata: has no option 'lable'"));
  EXPECT_THAT(std::string(refused("mds:tests/testdata/mds/zstd").message()),
              HasSubstr("is compressed (zstd)"));
  EXPECT_THAT(
      std::string(refused("litdata:tests/testdata/litdata/rows").message()),
      HasSubstr("rows of an Arrow table"));
  const auto named = storage::OpenRecordSource(
      "mds:tests/testdata/mds/photos?label=&num_classes=3",
      {.cache_dir = "off"});
  // There is no label that could have the classes.
  EXPECT_FALSE(named.ok());
}

}  // namespace
}  // namespace millrace::pipeline
