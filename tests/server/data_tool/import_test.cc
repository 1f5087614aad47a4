// `millrace-data pack --input=URI`: datasets of every format that the server
// reads become LMDB and Parquet with the same samples and fingerprints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::data_tool {
namespace {

using storage::WriteFile;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ImportTest : public ::testing::Test {
 protected:
  // Two shards of jpg, cls and txt. `damaged`: samples whose image is cut.
  std::string MakeTar(const std::vector<int>& damaged = {}) {
    for (int shard = 0; shard < 2; ++shard) {
      std::string tar;
      for (int i = shard * 4; i < shard * 4 + 4; ++i) {
        std::string jpeg = Jpeg(static_cast<uint64_t>(i));
        if (std::count(damaged.begin(), damaged.end(), i) != 0) {
          jpeg.resize(jpeg.size() / 2);
        }
        tar += storage::TarMemberBytes(absl::StrCat("k", i, ".cls"),
                                       absl::StrCat(i % 3));
        tar += storage::TarMemberBytes(absl::StrCat("k", i, ".jpg"), jpeg);
        tar += storage::TarMemberBytes(absl::StrCat("k", i, ".txt"),
                                       std::string(i, 'x'));
      }
      WriteFile(folder_ / absl::StrCat("s", shard, ".tar"),
                tar + storage::TarEnd());
    }
    return "tar:" + folder_ / "s{0..1}.tar";
  }
  std::string MakeFolder() {
    for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) {
      const std::filesystem::path file = folder_ / "images/" + name;
      std::filesystem::create_directories(file.parent_path());
      WriteFile(file, Jpeg(file.string().size()));
    }
    return "imagefolder:" + folder_ / "images";
  }
  std::string Cache() const { return "--cache_dir=" + folder_ / "cache"; }
  Result Pack(const std::string& input, const std::string& output,
              std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"pack", "--input=" + input,
                                     "--output=" + output, Cache()};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  storage::Samples Read(const std::string& uri, DatasetInfo* info) {
    const auto source =
        storage::OpenRecordSource(uri, {.cache_dir = folder_ / "cache"});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    *info = (*source)->info();
    const auto samples = storage::ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? *samples : storage::Samples();
  }
  // Packs `uri` and compares samples, schema and presets.
  void ExpectImports(const std::string& uri, const std::string& output,
                     std::vector<std::string> more = {}) {
    SCOPED_TRACE(absl::StrCat(uri, " into ", output));
    const Result packed = Pack(uri, output, more);
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    DatasetInfo before, after;
    const storage::Samples samples = Read(uri, &before);
    EXPECT_EQ(Read(output, &after), samples);
    EXPECT_GT(samples.size(), 0u);
    EXPECT_EQ(after.schema().DebugString(), before.schema().DebugString());
    EXPECT_EQ(after.train_preset(), before.train_preset());
    EXPECT_EQ(after.eval_preset(), before.eval_preset());
  }
  std::string Fingerprint(const std::string& uri) {
    DatasetInfo info;
    Read(uri, &info);
    return info.fingerprint();
  }
  storage::TempFolder folder_;
};

TEST_F(ImportTest, EveryFormatKeepsSamplesSchemaAndFingerprint) {
  int number = 0;
  for (const std::string& uri :
       {MakeTar(), MakeFolder(),
        std::string("tar:tests/testdata/webdataset/shard-{000..001}.tar"),
        std::string("tfrecord:tests/testdata/tfrecord/imagenet-*"),
        std::string("mds:tests/testdata/mds/photos"),
        std::string("litdata:tests/testdata/litdata/photos")}) {
    ++number;
    for (const std::string& scheme : storage::Schemes()) {
      const std::string output =
          absl::StrCat(scheme, ":", folder_ / absl::StrCat(scheme, number));
      ExpectImports(uri, output, {"--shards=2"});
      ASSERT_EQ(Call({"index", uri, Cache()}).code, program::kExitOk) << uri;
      EXPECT_EQ(Fingerprint(output), Fingerprint(uri)) << uri;
      EXPECT_EQ(Call({"verify", output}).code, program::kExitOk) << uri;
    }
  }
}

TEST_F(ImportTest, IndexKeepsTheContentHashAndTakesAUriAsInput) {
  const std::string uri = MakeTar();
  const Result headers =
      Call({"index", "--headers_only", "--input=" + uri, Cache()});
  EXPECT_EQ(headers.code, program::kExitOk) << headers.err;
  EXPECT_THAT(headers.out, HasSubstr("(of names, sizes and times)"));
  ASSERT_EQ(Call({"index", uri, Cache()}).code, program::kExitOk);
  const std::string fingerprint = Fingerprint(uri);
  const Result kept = Call({"index", "--headers_only", uri, Cache()});
  EXPECT_EQ(kept.code, program::kExitOk) << kept.err;
  EXPECT_THAT(kept.out,
              AllOf(HasSubstr(" has the content hash already; kept"),
                    HasSubstr(fingerprint), Not(HasSubstr("sizes and times"))));
  EXPECT_EQ(Fingerprint(uri), fingerprint);
}

TEST_F(ImportTest, VerifySaysWhoKnowsTheContent) {
  const std::string uri = MakeTar();
  ASSERT_EQ(Call({"index", uri, Cache()}).code, program::kExitOk);
  EXPECT_THAT(Call({"verify", uri, Cache()}).out,
              HasSubstr("as they were indexed"));
  MakeTar({1});
  ASSERT_EQ(Call({"index", uri, Cache()}).code, program::kExitOk);
  const Result damaged = Call({"verify", uri, Cache()});
  EXPECT_EQ(damaged.code, program::kExitFailed);
  EXPECT_THAT(damaged.err,
              AllOf(HasSubstr("1 of 8 images cannot be decoded"),
                    HasSubstr("repair the files"), Not(HasSubstr("pack"))));
}

TEST_F(ImportTest, LmdbOfAnotherProgramBecomesADataset) {
  for (const std::string& scheme : storage::Schemes()) {
    const std::string output = absl::StrCat(scheme, ":", folder_ / scheme);
    ExpectImports("lmdb:tests/testdata/foreign_lmdb/caffe_encoded", output);
    EXPECT_EQ(Call({"verify", output}).code, program::kExitOk);
  }
}

TEST_F(ImportTest, FieldsOfEveryKindPassFromFormatToFormat) {
  for (const std::string& from : storage::Schemes()) {
    const std::string uri = absl::StrCat(from, ":", folder_ / from);
    ASSERT_TRUE(storage::Pack(uri, storage::EveryKindDataset(37),
                              storage::EveryKindSamples(37))
                    .ok());
    for (const std::string& to : storage::Schemes()) {
      const std::string output =
          absl::StrCat(to, ":", folder_ / absl::StrCat(from, "-", to));
      ExpectImports(uri, output, {"--shards=3", "--no_decode"});
      EXPECT_EQ(Fingerprint(output), Fingerprint(uri));
    }
  }
}

TEST_F(ImportTest, TheNamesOfFilesStayBesideImages) {
  ExpectImports(MakeFolder(), "lmdb:" + folder_ / "lmdb");
  if (storage::Schemes().size() == 1) return;  // Parquet is not built in
  ExpectImports(MakeFolder(), "parquet:" + folder_ / "parquet");
  EXPECT_THAT(storage::ReadFile(folder_ / "parquet"), HasSubstr("cat/1.jpg"));
}

// The index file of MDS does not tell the number of classes.
TEST_F(ImportTest, ClassesAreCountedUnlessThereIsNoFolderForTheIndex) {
  const std::string uri = "mds:tests/testdata/mds/photos";
  const std::string output = "lmdb:" + folder_ / "out";
  DatasetInfo info;
  ASSERT_EQ(Pack(uri, output).code, program::kExitOk);
  Read(output, &info);
  EXPECT_EQ(info.schema().fields(1).num_classes(), 3);

  const Result off = Call({"pack", "--input=" + uri, "--output=" + output,
                           "--cache_dir=off", "--overwrite"});
  EXPECT_EQ(off.code, program::kExitOk) << off.err;
  EXPECT_THAT(off.err, HasSubstr("the number of classes of mds:"));
  Read(output, &info);
  EXPECT_EQ(info.schema().fields(1).num_classes(), 0);
}

TEST_F(ImportTest, TheSameInputGivesTheSameBytes) {
  const std::string uri = MakeTar();
  for (const std::string& scheme : storage::Schemes()) {
    std::vector<std::string> files;
    for (const char* name : {"a", "b"}) {
      const std::string path = folder_ / absl::StrCat(scheme, name);
      const Result packed = Pack(uri, absl::StrCat(scheme, ":", path));
      ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
      files.push_back(storage::ReadFile(path));
    }
    EXPECT_TRUE(files[0] == files[1]) << scheme;
  }
}

TEST_F(ImportTest, DamagedSamplesAreNamedOrLeftOut) {
  const std::string uri = MakeTar({1, 6});
  const std::string output = "lmdb:" + folder_ / "out";
  const Result refused = Pack(uri, output);
  EXPECT_EQ(refused.code, program::kExitFailed);
  EXPECT_THAT(
      refused.err,
      AllOf(HasSubstr("2 samples cannot be packed: sample 1 (shard s0.tar, row "
                      "1): field image does not decode: "),
            HasSubstr("; sample 6 (shard s1.tar, row 2): "),
            HasSubstr("skip such samples with --skip_bad")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));

  const Result skipped = Pack(uri, output, {"--skip_bad"});
  EXPECT_EQ(skipped.code, program::kExitOk) << skipped.err;
  EXPECT_THAT(skipped.out, AllOf(HasSubstr("packed 6 samples"),
                                 HasSubstr("every image was decoded")));
  EXPECT_THAT(skipped.err, HasSubstr("2 bad samples left out: sample 1 ("));
  DatasetInfo info, all;
  const storage::Samples samples = Read(output, &info);
  const storage::Samples before = Read(uri, &all);
  ASSERT_EQ(samples.size(), 6u);
  EXPECT_EQ(samples[0], before[0]);
  EXPECT_EQ(samples[1], before[2]);
  EXPECT_EQ(samples[5], before[7]);

  const Result blind = Pack(uri, "lmdb:" + folder_ / "blind", {"--no_decode"});
  EXPECT_EQ(blind.code, program::kExitOk) << blind.err;
  EXPECT_THAT(blind.out, HasSubstr("packed 8 samples"));
}

// A label that the class index forbids: Read() refuses the sample.
TEST_F(ImportTest, UnreadableSamplesAreNamedWithoutDecoding) {
  const std::string uri = "lmdb:" + folder_ / "labels";
  storage::Samples samples = storage::ImageSamples(5);
  ASSERT_TRUE(storage::Pack(uri, storage::ImageDataset(5), samples).ok());
  std::string bytes = storage::ReadFile(folder_ / "labels");
  // A sample of LMDB: the label, the length of the image, the image.
  const size_t at = bytes.find(samples[3][0]);
  ASSERT_NE(at, std::string::npos);
  bytes[at - 12] = 77;
  WriteFile(folder_ / "labels", bytes);

  const std::string output = "lmdb:" + folder_ / "out";
  const Result refused = Pack(uri, output, {"--no_decode"});
  EXPECT_EQ(refused.code, program::kExitFailed);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("shard labels, row 3 (sample 3): "),
                                 HasSubstr("77")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  const Result skipped = Pack(uri, output, {"--no_decode", "--skip_bad"});
  EXPECT_EQ(skipped.code, program::kExitOk) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("1 bad sample left out: sample 3 (shard "
                                     "labels, row 3): "));
  DatasetInfo info;
  EXPECT_EQ(Read(output, &info).size(), 4u);
}

TEST_F(ImportTest, ADatasetWithoutAGoodSampleIsRefused) {
  const Result refused = Pack(MakeTar({0, 1, 2, 3, 4, 5, 6, 7}),
                              "lmdb:" + folder_ / "out", {"--skip_bad"});
  EXPECT_EQ(refused.code, program::kExitFailed);
  EXPECT_THAT(refused.err, HasSubstr("no sample of tar:"));
}

TEST_F(ImportTest, JpegsBecomeSeekable) {
  const Result packed =
      Pack(MakeTar(), "lmdb:" + folder_ / "out", {"--seekable"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("of 8 images seekable"));
}

TEST_F(ImportTest, FlagsWithoutAMeaningAreRefused) {
  const std::string uri = MakeTar();
  const std::string output = "--output=lmdb:" + folder_ / "out";
  const auto expect_usage = [&](std::vector<std::string> args,
                                const std::string& sentence) {
    args.insert(args.begin(), {"pack", output});
    const Result refused = Call(args);
    EXPECT_EQ(refused.code, program::kExitUsage) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(sentence));
  };
  expect_usage({"--input=" + uri, "--split=train"}, "--split needs --format");
  expect_usage({"--input=" + uri, "--labels_from_folders"},
               "--labels_from_folders needs --format=imagefolder");
  expect_usage({"--input=" + uri, "--format=imagefolder"},
               "says its format; leave --format=imagefolder out");
  expect_usage({"--input=" + folder_.path(), "--format=imagefolder", Cache()},
               "--cache_dir needs --input=SCHEME:PATH");
  expect_usage({"--input=" + folder_.path()}, "--format is missing; set it");
  expect_usage({"--input=zip:/data"}, "zip");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

}  // namespace
}  // namespace millrace::data_tool
