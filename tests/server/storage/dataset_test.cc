// What every packed format must do: come back as it was written, agree on
// fingerprints, and be refused when it is not whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "server/storage/content_hash.h"
#include "server/storage/open.h"
#include "tests/server/storage/memory/memory_source.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class DatasetTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Uri(absl::string_view name) const {
    return absl::StrCat(GetParam(), ":", folder_ / name);
  }
  std::string Suffix() const { return absl::StrCat(".", GetParam()); }
  std::string Part(absl::string_view folder, int i, int n) const {
    return folder_ / absl::StrCat(folder, "/", ShardName(i, n, Suffix()));
  }
  absl::StatusOr<std::unique_ptr<RecordSource>> Open(absl::string_view name) {
    return OpenRecordSource(Uri(name), {});
  }
  absl::Status OpenError(absl::string_view name) { return Open(name).status(); }

  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Formats, DatasetTest, ::testing::ValuesIn(Schemes()),
                         [](const auto& info) { return info.param; });

TEST_P(DatasetTest, ImagesComeBackAsTheyWere) {
  const Samples samples = ImageSamples(200);
  const auto packed = Pack(Uri("d"), ImageDataset(200), samples);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  const DatasetInfo& info = (*source)->info();
  EXPECT_EQ(info.format(), GetParam());
  EXPECT_EQ(info.samples(), 200);
  EXPECT_EQ(info.schema().SerializeAsString(),
            ImageDataset(200).schema().SerializeAsString());
  EXPECT_EQ(info.train_preset(), "imagenet_train");
  EXPECT_EQ(info.eval_preset(), "imagenet_eval");
  EXPECT_EQ(info.SerializeAsString(), packed->SerializeAsString());
  EXPECT_EQ(info.shards(0).name(), "d");
  EXPECT_EQ(info.shards(0).bytes(), std::filesystem::file_size(folder_ / "d"));
  const auto read = ReadAll(**source);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, samples);
}

TEST_P(DatasetTest, EveryKindOfFieldComesBack) {
  const Samples samples = EveryKindSamples(130);
  const auto packed = Pack(Uri("d"), EveryKindDataset(130), samples);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().schema().SerializeAsString(),
            EveryKindDataset(130).schema().SerializeAsString());
  const auto read = ReadAll(**source);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, samples);
}

TEST_P(DatasetTest, RandomReadsNameShardAndRow) {
  const Samples samples = ImageSamples(101);
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(101), samples, {.shards = 4}).ok());
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  auto reader = (*source)->NewReader();
  ASSERT_TRUE(reader.ok());
  for (int64_t step = 0; step < 101; ++step) {
    const int64_t index = step * 37 % 101;
    int calls = 0;
    const absl::Status status =
        (*reader)->Read(index, [&](const EncodedSample& sample) {
          ++calls;
          const ShardInfo& shard = (*source)->info().shards(sample.shard);
          EXPECT_EQ(shard.first_sample() + sample.row, index);
          EXPECT_LT(sample.row, shard.samples());
          EXPECT_EQ(
              std::string(sample.fields[0].begin(), sample.fields[0].end()),
              samples[index][0]);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(calls, 1);
  }
}

TEST_P(DatasetTest, VisitorsStatusIsReturned) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(3), ImageSamples(3)).ok());
  const auto source = Open("d");
  auto reader = (*source)->NewReader();
  const absl::Status status = (*reader)->Read(
      0, [](const EncodedSample&) { return absl::AbortedError("stop"); });
  EXPECT_EQ(status, absl::AbortedError("stop"));
}

TEST_P(DatasetTest, IndexOutsideIsOutOfRange) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(3), ImageSamples(3)).ok());
  const auto source = Open("d");
  auto reader = (*source)->NewReader();
  const auto visit = [](const EncodedSample&) { return absl::OkStatus(); };
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->Read(3, visit)));
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->Read(-1, visit)));
}

TEST_P(DatasetTest, FingerprintIsOfContentAlone) {
  const Samples samples = ImageSamples(50);
  const auto one = Pack(Uri("one"), ImageDataset(50), samples);
  const auto four =
      Pack(Uri("other/four"), ImageDataset(50), samples, {.shards = 4});
  EXPECT_FALSE(four.ok());  // the folder above must exist
  std::filesystem::create_directory(folder_ / "other");
  const auto four_again =
      Pack(Uri("other/four"), ImageDataset(50), samples, {.shards = 4});
  ASSERT_TRUE(four_again.ok()) << four_again.status();
  EXPECT_EQ(one->fingerprint(), four_again->fingerprint());
  EXPECT_EQ(NewMemorySource(ImageDataset(50), samples)->info().fingerprint(),
            one->fingerprint());
  EXPECT_EQ(one->fingerprint().size(), 32);

  Samples swapped = samples;
  std::swap(swapped[3], swapped[6]);  // of the same class
  const auto other = Pack(Uri("swapped"), ImageDataset(50), swapped);
  EXPECT_NE(other->fingerprint(), one->fingerprint());

  DatasetInfo renamed = ImageDataset(50);
  renamed.mutable_schema()->mutable_fields(1)->set_class_names(0, "kitten");
  EXPECT_NE(Pack(Uri("renamed"), renamed, samples)->fingerprint(),
            one->fingerprint());
}

TEST_P(DatasetTest, ShardsTileTheDataset) {
  ASSERT_TRUE(
      Pack(Uri("d"), ImageDataset(10), ImageSamples(10), {.shards = 4}).ok());
  EXPECT_THAT(
      [&] {
        std::vector<std::string> names;
        for (const auto& e :
             std::filesystem::directory_iterator(folder_ / "d")) {
          names.push_back(e.path().filename());
        }
        std::sort(names.begin(), names.end());
        return names;
      }(),
      ElementsAre(ShardName(0, 4, Suffix()), ShardName(1, 4, Suffix()),
                  ShardName(2, 4, Suffix()), ShardName(3, 4, Suffix())));
  const auto source = Open("d");
  const DatasetInfo& info = (*source)->info();
  ASSERT_EQ(info.shards_size(), 4);
  std::vector<int64_t> counts;
  for (const ShardInfo& shard : info.shards())
    counts.push_back(shard.samples());
  EXPECT_THAT(counts, ElementsAre(2, 3, 2, 3));
  EXPECT_EQ(info.shards(3).first_sample(), 7);
}

TEST_P(DatasetTest, AGlobNamesTheSameDataset) {
  ASSERT_TRUE(
      Pack(Uri("d"), ImageDataset(10), ImageSamples(10), {.shards = 3}).ok());
  const auto folder = Open("d");
  const auto glob = Open("d/part-*");
  ASSERT_TRUE(glob.ok()) << glob.status();
  EXPECT_EQ((*glob)->info().SerializeAsString(),
            (*folder)->info().SerializeAsString());
}

TEST_P(DatasetTest, AMissingShardIsNamed) {
  ASSERT_TRUE(
      Pack(Uri("d"), ImageDataset(10), ImageSamples(10), {.shards = 4}).ok());
  std::filesystem::remove(Part("d", 2, 4));
  const absl::Status status = OpenError("d");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(ShardName(2, 4, Suffix())),
                                     HasSubstr("missing")));
  // One shard alone is not the dataset either.
  EXPECT_TRUE(absl::IsDataLoss(
      OpenRecordSource(absl::StrCat(GetParam(), ":", Part("d", 0, 4)), {})
          .status()));
}

// Also where the number of samples, the schema and the flags are the same, and
// the shards that are mixed have equal samples.
TEST_P(DatasetTest, ShardsOfTwoPackingsAreNotMixed) {
  Samples changed = ImageSamples(10);
  changed[0][0] += "x";
  ASSERT_TRUE(
      Pack(Uri("a"), ImageDataset(10), ImageSamples(10), {.shards = 2}).ok());
  ASSERT_TRUE(Pack(Uri("b"), ImageDataset(10), changed, {.shards = 2}).ok());
  std::filesystem::copy_file(Part("b", 1, 2), Part("a", 1, 2),
                             std::filesystem::copy_options::overwrite_existing);
  const absl::Status status = OpenError("a");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("two different packings"));
}

TEST_P(DatasetTest, AShardThatIsThereTwiceIsNamed) {
  ASSERT_TRUE(
      Pack(Uri("d"), ImageDataset(10), ImageSamples(10), {.shards = 2}).ok());
  std::filesystem::copy_file(Part("d", 1, 2),
                             folder_ / absl::StrCat("d/copy", Suffix()));
  EXPECT_TRUE(absl::IsDataLoss(OpenError("d")));
}

TEST_P(DatasetTest, NothingThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(OpenError("nothing")));
  EXPECT_TRUE(absl::IsNotFound(OpenError("no*thing")));
  EXPECT_TRUE(absl::IsInvalidArgument(
      OpenRecordSource(absl::StrCat(GetParam(), ":"), {}).status()));
}

TEST_P(DatasetTest, AFolderWithoutShardsSaysWhatItHolds) {
  std::filesystem::create_directory(folder_ / "d");
  EXPECT_TRUE(absl::IsInvalidArgument(OpenError("d")));
  WriteFile(folder_ / "d/data.mdb", "x");
  EXPECT_THAT(Message(OpenError("d")), HasSubstr("an LMDB "));
}

TEST_P(DatasetTest, EmptyAndForeignFilesAreRefused) {
  WriteFile(folder_ / "empty", "");
  // The first bytes of the other format are a mistake of another kind.
  WriteFile(folder_ / "short", GetParam() == "parquet" ? "PAR1" : "PAR");
  WriteFile(folder_ / "text", std::string(100000, 'x'));
  for (const char* name : {"empty", "short", "text"}) {
    const absl::Status status = OpenError(name);
    EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
    EXPECT_THAT(Message(status), HasSubstr(folder_ / name));
  }
}

TEST_P(DatasetTest, ATruncatedFileIsRefusedWhereverItIsCut) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(40), ImageSamples(40)).ok());
  const std::string whole = ReadFile(folder_ / "d");
  for (size_t size :
       {whole.size() - 1, whole.size() - 4096, whole.size() / 2, size_t{8192},
        size_t{5000}, size_t{4096}, size_t{100}, size_t{9}, size_t{1}}) {
    WriteFile(folder_ / "cut", absl::string_view(whole).substr(0, size));
    const absl::Status status = OpenError("cut");
    EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
  }
}

TEST_P(DatasetTest, AnExistingOutputIsKeptWithoutOverwrite) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(5), ImageSamples(5)).ok());
  const std::string before = ReadFile(folder_ / "d");
  const auto again = Pack(Uri("d"), ImageDataset(6), ImageSamples(6));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_THAT(Message(again.status()), HasSubstr("--overwrite"));
  EXPECT_EQ(ReadFile(folder_ / "d"), before);
  EXPECT_THAT(folder_.Names(), ElementsAre("d"));
}

TEST_P(DatasetTest, OverwriteReplacesWhileReadersGoOn) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(5), ImageSamples(5)).ok());
  const auto old = Open("d");
  const auto again =
      Pack(Uri("d"), ImageDataset(6), ImageSamples(6), {.overwrite = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*Open("d"))->info().samples(), 6);
  const auto read = ReadAll(**old);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, ImageSamples(5));
}

TEST_P(DatasetTest, OverwriteReplacesAFolderWithOtherShards) {
  ASSERT_TRUE(
      Pack(Uri("d"), ImageDataset(10), ImageSamples(10), {.shards = 4}).ok());
  const auto refused =
      Pack(Uri("d"), ImageDataset(10), ImageSamples(10), {.shards = 2});
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status()));
  const auto again = Pack(Uri("d"), ImageDataset(10), ImageSamples(10),
                          {.shards = 2, .overwrite = true});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().shards_size(), 2);
}

TEST_P(DatasetTest, OverwriteKeepsWhatIsNoDataset) {
  WriteFile(folder_ / "notes", "my notes");
  std::filesystem::create_directory(folder_ / "home");
  WriteFile(folder_ / "home/letter", "dear");
  for (const char* name : {"notes", "home"}) {
    const auto packed =
        Pack(Uri(name), ImageDataset(5), ImageSamples(5), {.overwrite = true});
    EXPECT_TRUE(absl::IsAlreadyExists(packed.status())) << packed.status();
  }
  EXPECT_EQ(ReadFile(folder_ / "notes"), "my notes");
  EXPECT_EQ(ReadFile(folder_ / "home/letter"), "dear");
}

TEST_P(DatasetTest, AbsurdShardCountsAreRefused) {
  for (int64_t shards :
       {int64_t{0}, int64_t{-1}, int64_t{6}, int64_t{1} << 40}) {
    const auto packed =
        Pack(Uri("d"), ImageDataset(5), ImageSamples(5), {.shards = shards});
    EXPECT_TRUE(absl::IsInvalidArgument(packed.status())) << shards;
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(Pack(Uri("d"), ImageDataset(0), {}).status()));
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_P(DatasetTest, AClassOutOfRangeIsNotPacked) {
  for (int64_t label : {3, -1}) {
    Samples samples = ImageSamples(5);
    samples[4][1] = Scalar<int64_t>(label);
    const auto packed = Pack(Uri("d"), ImageDataset(5), samples);
    EXPECT_TRUE(absl::IsDataLoss(packed.status())) << packed.status();
    EXPECT_THAT(Message(packed.status()),
                AllOf(HasSubstr("f/4.jpg"), HasSubstr("3 classes")));
  }
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_P(DatasetTest, AnInterruptedPackingLeavesNothing) {
  for (int shards : {1, 3}) {
    auto writer =
        DatasetWriter::Create(Uri("d"), ImageDataset(9), {.shards = shards});
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::string label = Scalar<int64_t>(1);
    const absl::Span<const uint8_t> bytes(
        reinterpret_cast<const uint8_t*>(label.data()), 8);
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE((*writer)->Append({bytes, bytes}, "").ok());
    }
    EXPECT_FALSE(Open("d").ok());
    // Killed now, it would leave these names, which no folder listing takes
    // for shards.
    EXPECT_FALSE((*writer)->Finish().ok());
    writer->reset();
    EXPECT_THAT(folder_.Names(), IsEmpty());
  }
}

TEST_P(DatasetTest, AnUnwritableOutputIsToldBeforeTheWork) {
  const auto packed =
      DatasetWriter::Create(Uri("no/such/folder/d"), ImageDataset(5), {});
  EXPECT_TRUE(absl::IsNotFound(packed.status())) << packed.status();
  EXPECT_THAT(Message(packed.status()), HasSubstr("no/such/folder"));
  WriteFile(folder_ / "file", "x");
  EXPECT_FALSE(DatasetWriter::Create(Uri("file/d"), ImageDataset(5), {}).ok());
  const auto device = DatasetWriter::Create(
      absl::StrCat(GetParam(), ":/proc/millrace-dataset"), ImageDataset(5), {});
  EXPECT_FALSE(device.ok());
  EXPECT_THAT(Message(device.status()), HasSubstr("/proc"));
}

// A limit on the size of files stands for a full disk: the kernel refuses the
// write in the same places.
TEST_P(DatasetTest, AFullDiskLeavesNothing) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  Samples samples;
  for (int i = 0; i < 100; ++i) {
    samples.push_back(
        {std::string(1 << 20, static_cast<char>(i)), Scalar<int64_t>(i % 3)});
  }
  for (uint64_t limit :
       {uint64_t{4096}, uint64_t{3} << 20, uint64_t{99} << 20}) {
    const rlimit small{.rlim_cur = limit, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto packed = Pack(Uri("d"), ImageDataset(100), samples);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(packed.ok()) << limit;
    EXPECT_THAT(Message(packed.status()), HasSubstr(folder_.path()));
    // LMDB said "Input/output error", or that the disk is full.
    EXPECT_THAT(Message(packed.status()),
                HasSubstr("File too large; the file system or `ulimit -f` "
                          "allows no larger file"));
    EXPECT_THAT(folder_.Names(), IsEmpty());
  }
}

TEST(OpenRecordSourceTest, UnknownSchemesAreRefused) {
  for (const char* uri : {"zip:/x", "/data/train", "", ":"}) {
    const auto source = OpenRecordSource(uri, {});
    EXPECT_TRUE(absl::IsInvalidArgument(source.status())) << uri;
    EXPECT_THAT(Message(source.status()), HasSubstr("lmdb:"));
  }
}

TEST(OpenRecordSourceTest, FormatsAgreeOnFingerprints) {
  if (Schemes().size() < 2) GTEST_SKIP() << "built without Parquet";
  TempFolder folder;
  const auto lmdb = Pack(absl::StrCat("lmdb:", folder / "a"),
                         EveryKindDataset(77), EveryKindSamples(77));
  const auto parquet =
      Pack(absl::StrCat("parquet:", folder / "b"), EveryKindDataset(77),
           EveryKindSamples(77), {.shards = 3});
  ASSERT_TRUE(lmdb.ok() && parquet.ok()) << lmdb.status() << parquet.status();
  EXPECT_EQ(lmdb->fingerprint(), parquet->fingerprint());
}

}  // namespace
}  // namespace millrace::storage
