// tar: samples and fields of shards, of the real webdataset writer and made by
// hand, through the whole source.

#include "server/storage/tar/tar_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/objects/local_objects.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"
#include "tests/server/storage/unpack/unpack_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kData[] = "tests/testdata/webdataset/";

class TarFormatTest : public ::testing::Test {
 protected:
  TarFormatTest() { options_.cache_dir = folder_ / "cache"; }

  absl::StatusOr<std::unique_ptr<RecordSource>> TryOpen(
      const std::string& rest) {
    return OpenRecordSource("tar:" + rest, options_);
  }
  std::unique_ptr<RecordSource> Open(const std::string& rest) {
    auto source = TryOpen(rest);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }
  // `millrace-data index`.
  DatasetInfo Index(const std::string& rest, uint32_t threads = 2) {
    const auto uri = ExtentUri::Parse("tar", rest);
    LocalObjects objects;
    std::string file;
    const auto index = MakeExtentIndex(
        TarFormat(), *uri, objects, options_.cache_dir,
        {.threads = threads, .content = true, .progress = {}}, &file);
    EXPECT_TRUE(index.ok()) << index.status();
    return Open(rest)->info();
  }
  // Writes a shard and opens it; the error.
  std::string Refusal(const std::string& archive,
                      const std::string& query = "") {
    WriteFile(folder_ / "x.tar", archive);
    const auto source = TryOpen(folder_ / "x.tar" + query);
    if (source.ok()) return "";
    EXPECT_THAT(std::string(source.status().message()),
                HasSubstr(absl::IsInvalidArgument(source.status())
                              ? ""
                              : folder_ / "x.tar"));
    return std::string(source.status().message());
  }
  static std::vector<std::string> FieldNames(const RecordSource& source) {
    std::vector<std::string> names;
    for (const Field& field : source.info().schema().fields()) {
      names.push_back(
          absl::StrCat(field.name(), " ",
                       field.kind() == FIELD_KIND_ENCODED_IMAGE ? "image"
                       : field.kind() == FIELD_KIND_TENSOR      ? "tensor"
                                                                : "ragged"));
    }
    return names;
  }
  static std::string Image(int i) {
    return ReadFile(absl::StrFormat("tests/testdata/images/exif_%d.jpg", i));
  }
  TempFolder folder_;
  OpenSourceOptions options_;
};

std::string Floats(float first) {
  std::string bytes;
  for (int i = 0; i < 6; ++i) bytes += Scalar<float>(first + i);
  return bytes;
}

TEST_F(TarFormatTest, ShardsOfTheWebdatasetLibrary) {
  for (const std::string path :
       {"shard-{000..001}.tar", "shard-*.tar", "shard-00?.tar"}) {
    const auto source = Open(kData + path);
    ASSERT_NE(source, nullptr);
    EXPECT_THAT(FieldNames(*source),
                ElementsAre("image image", "label tensor", "json ragged",
                            "npy tensor", "txt ragged"));
    EXPECT_EQ(source->info().format(), "tar");
    EXPECT_EQ(source->info().samples(), 5);
    EXPECT_EQ(source->info().shards_size(), 2);
    EXPECT_EQ(source->info().train_preset(), "imagenet_train");
    const Schema& schema = source->info().schema();
    // Known from the headers' scan.
    EXPECT_EQ(schema.fields(1).num_classes(), 4);
    EXPECT_THAT(schema.fields(3).shape(), ElementsAre(2, 3));
    EXPECT_EQ(schema.fields(3).dtype(), DTYPE_FLOAT32);
    const auto samples = ReadAll(*source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    const int64_t labels[] = {3, 0, 2, 1, 0};
    for (int i = 0; i < 5; ++i) {
      std::string text;
      std::string name;
      for (int n = 0; n < i; ++n) {
        text += "caption ";
        name += "\\u00e9";
      }
      EXPECT_THAT((*samples)[i],
                  ElementsAre(Image(i + 1), Scalar<int64_t>(labels[i]),
                              absl::StrFormat("{\"id\": %d, \"name\": \"%s\"}",
                                              i, name),
                              Floats(static_cast<float>(i)), text))
          << i;
    }
  }
}

TEST_F(TarFormatTest, AnArchiveOfGnuTar) {
  const auto source = Open(absl::StrCat(kData, "gnu.tar"));
  ASSERT_NE(source, nullptr);
  EXPECT_THAT(FieldNames(*source), ElementsAre("image image", "label tensor"));
  EXPECT_THAT(*ReadAll(*source),
              ElementsAre(ElementsAre(Image(1), Scalar<int64_t>(3)),
                          ElementsAre(Image(2), Scalar<int64_t>(0))));
}

// The one fingerprint of all formats.
TEST_F(TarFormatTest, TheContentIsThatOfThePackedDataset) {
  std::string archives[3];
  Samples samples;
  DatasetInfo info;
  for (int i = 0; i < 30; ++i) {
    std::string image =
        absl::StrCat("\xFF\xD8\xFF", std::string(i * 100, 'p'), i);
    archives[i / 10] +=
        TarMemberBytes(absl::StrCat("k", i, ".jpg"), image) +
        TarMemberBytes(absl::StrCat("k", i, ".cls"), absl::StrCat(i % 7));
    samples.push_back({std::move(image), Scalar<int64_t>(i % 7)});
  }
  for (int a = 0; a < 3; ++a) {
    WriteFile(folder_ / absl::StrCat(a, ".tar"), archives[a] + TarEnd());
  }
  WriteFile(folder_ / "names", "a\nb\nc\nd\ne\nf\ng\n");
  info.set_samples(30);
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(7);
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    label.add_class_names(name);
  }
  const auto packed =
      Pack(absl::StrCat("lmdb:", folder_ / "p.lmdb"), info, samples);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::string rest =
      absl::StrCat(folder_ / "{0..2}.tar?classes=", folder_ / "names");
  const std::string listed = Open(rest)->info().fingerprint();
  EXPECT_NE(listed, packed->fingerprint());
  for (const uint32_t threads : {1, 4}) {
    EXPECT_EQ(Index(rest, threads).fingerprint(), packed->fingerprint());
  }
  EXPECT_EQ(*ReadAll(*Open(rest)), samples);
  // The same samples by the name of the folder.
  EXPECT_EQ(Open(absl::StrCat(folder_.path(), "?classes=", folder_ / "names"))
                ->info()
                .samples(),
            30);
}

// A .npy file of `rows` elements of four bytes.
std::string Npy(const char* type, int rows) {
  const std::string dictionary = absl::StrFormat(
      "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", type, rows);
  return absl::StrCat("\x93NUMPY\x01", std::string(1, '\0'),
                      std::string(1, static_cast<char>(dictionary.size())),
                      std::string(1, '\0'), dictionary,
                      std::string(4 * static_cast<size_t>(rows), 'f'));
}

// The first sample decides about all samples.
TEST_F(TarFormatTest, ADamagedArrayInTheFirstSampleIsRefused) {
  const std::string path = folder_ / "x.tar";
  std::string damaged = Npy("<f4", 2);
  damaged[3] ^= 1;
  WriteFile(path, TarMemberBytes("1.npy", damaged) +
                      TarMemberBytes("2.npy", Npy("<f4", 2)) + TarEnd());
  const absl::Status status = TryOpen(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path), HasSubstr("is no NumPy array"),
                    HasSubstr("?fields=npy:npy:bytes")));
  EXPECT_EQ(FieldNames(*Open(path + "?fields=npy:npy:bytes")).size(), 1);
}

// open() of a FIFO would wait for a writer.
TEST_F(TarFormatTest, AFifoInThePlaceOfAnIndexIsReplaced) {
  const std::string path = folder_ / "x.tar";
  WriteFile(path, TarMemberBytes("1.txt", "a") + TarEnd());
  Open(path);
  int replaced = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.cache_dir)) {
    const std::string file = entry.path();
    if (!absl::EndsWith(file, ".mrindex")) continue;
    std::filesystem::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    ++replaced;
  }
  EXPECT_EQ(replaced, 1);
  EXPECT_EQ(Open(path)->info().samples(), 1);
}

// POSIX: a program reads a member of an unknown type as a regular file.
TEST_F(TarFormatTest, MembersOfUnknownTypesAreFiles) {
  const std::string path = folder_ / "x.tar";
  WriteFile(path, TarMemberBytes("1.txt", "a", 'Z') +
                      TarMemberBytes("2.txt", "b") + TarEnd());
  EXPECT_EQ(Open(path)->info().samples(), 2);
}

TEST_F(TarFormatTest, NamesOfFields) {
  const std::string archive =
      TarMemberBytes("1.a.jpg", "A") + TarMemberBytes("1.b.png", "B") +
      TarMemberBytes("1.INDEX", " 7\n") + TarMemberBytes("1.id", "12") +
      TarMemberBytes("1.npy", Npy("<U4", 1)) + TarEnd();
  WriteFile(folder_ / "x.tar", archive);
  const auto source = Open(folder_ / "x.tar");
  EXPECT_THAT(FieldNames(*source),
              ElementsAre("label tensor", "a.jpg image", "b.png image",
                          "id tensor", "npy ragged"));
  EXPECT_EQ(source->info().schema().fields(0).num_classes(), 8);
  EXPECT_EQ(source->info().schema().fields(3).num_classes(), 0);
  EXPECT_EQ(source->info().train_preset(), "");
  const auto chosen =
      Open(folder_ / "x.tar?fields=image:b.png;b.jpg,label:id,raw:index:bytes");
  EXPECT_THAT(FieldNames(*chosen),
              ElementsAre("image image", "label tensor", "raw ragged"));
  EXPECT_THAT(*ReadAll(*chosen),
              ElementsAre(ElementsAre("B", Scalar<int64_t>(12), " 7\n")));
  EXPECT_NE(chosen->info().fingerprint(), source->info().fingerprint());
}

TEST_F(TarFormatTest, ImagesOfSeveralTypes) {
  WriteFile(folder_ / "x.tar", TarMemberBytes("1.jpg", "A") +
                                   TarMemberBytes("2.PNG", "B") +
                                   TarMemberBytes("3.webp", "C") + TarEnd());
  EXPECT_THAT(
      *ReadAll(*Open(folder_ / "x.tar")),
      ElementsAre(ElementsAre("A"), ElementsAre("B"), ElementsAre("C")));
}

TEST_F(TarFormatTest, WrongOptions) {
  const std::string archive =
      TarMemberBytes("1.jpg", "A") + TarMemberBytes("1.cls", "1") + TarEnd();
  for (const auto& [value, says] :
       std::vector<std::pair<std::string, std::string>>{
           {"image", "'image' is no field"},
           {"image:", "'image:' is no field"},
           {":jpg", "':jpg' is no field"},
           {"image:jpg:text", "'text' is unknown"},
           {"image:jpg;", "an extension is empty"},
           {"image:png",
            "the first sample has no member .png; its members are "
            ".jpg, .cls"},
           {"a:jpg,a:cls", "the name 'a' appears twice"},
           {"a:jpg,b:jpg", "the extension .jpg appears twice"}}) {
    EXPECT_THAT(Refusal(archive, "?fields=" + value), HasSubstr(says));
  }
  EXPECT_THAT(Refusal(archive, "?filds=a"), HasSubstr("did you mean fields?"));
}

TEST_F(TarFormatTest, SamplesThatDiffer) {
  const std::string first =
      TarMemberBytes("1.jpg", "A") + TarMemberBytes("1.cls", "1");
  EXPECT_THAT(Refusal(first + TarMemberBytes("2.jpg", "B") + TarEnd()),
              AllOf(HasSubstr("byte 2048: sample 2: the member .cls (field "
                              "'label') is missing"),
                    HasSubstr("?fields=")));
  EXPECT_THAT(
      Refusal(first + TarMemberBytes("2.jpg", "B") +
              TarMemberBytes("2.cls", "2") + TarMemberBytes("2.txt", "t") +
              TarEnd()),
      HasSubstr("sample 2: the member .txt is not among those of the first"));
  EXPECT_EQ(Refusal(first + TarMemberBytes("2.jpg", "B") +
                        TarMemberBytes("2.txt", "t") + TarEnd(),
                    "?fields=image:jpg"),
            "");
  EXPECT_THAT(Refusal(first + TarMemberBytes("2.jpg", "B") +
                      TarMemberBytes("2.png", "B") + TarEnd()),
              HasSubstr("sample 2: field 'image' has two members; the second, "
                        ".png, is at byte 3072"));
  EXPECT_THAT(Refusal(TarMemberBytes("1.jpg", "A") +
                      TarMemberBytes("1.JPG", "B") + TarEnd()),
              HasSubstr("byte 1024: sample 1 has two members .JPG"));
  // The key has the folder.
  EXPECT_THAT(Refusal(first + TarMemberBytes("a/2.jpg", "B") +
                      TarMemberBytes("b/2.cls", "2") + TarEnd()),
              HasSubstr("sample a/2: the member .cls"));
  for (const std::string& label :
       std::vector<std::string>{"x", "", "1.5", std::string(100, ' ') + "1"}) {
    EXPECT_THAT(Refusal(first + TarMemberBytes("2.jpg", "B") +
                        TarMemberBytes("2.cls", label) + TarEnd()),
                HasSubstr("sample 2: field 'label' (member .cls at byte 3072) "
                          "is no whole number"));
  }
  EXPECT_THAT(Refusal(first + TarMemberBytes("2.jpg", "B") +
                      TarMemberBytes("2.cls", "-1") + TarEnd()),
              HasSubstr("a class index must not be negative"));
}

TEST_F(TarFormatTest, CompressedShardsAreReadFromTheCacheFolder) {
  const auto plain = ReadAll(*Open(absl::StrCat(kData, "shard-*.tar")));
  ASSERT_TRUE(plain.ok());
  const std::string shards[] = {
      Compress(Codec::kGzip, ReadFile(absl::StrCat(kData, "shard-000.tar"))),
      Compress(Codec::kGzip, ReadFile(absl::StrCat(kData, "shard-001.tar")))};
  WriteFile(folder_ / "0.tar.gz", shards[0]);
  WriteFile(folder_ / "1.tar.gz", shards[1]);
  for (const std::string rest : {"", "/*.tar.gz", "/{0..1}.tar.gz"}) {
    const auto source = Open(folder_.path() + rest);
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(*ReadAll(*source), *plain) << rest;
  }
  // Only where the user has named a folder.
  options_.cache_dir = "";
  const absl::Status refused = TryOpen(folder_ / "0.tar.gz").status();
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("0.tar.gz is compressed (gz)"),
            HasSubstr("--cache_dir=DIR"),
            HasSubstr(absl::StrCat(
                "`millrace-data pack --input=tar:", folder_ / "0.tar.gz",
                " --cache_dir=DIR --output=lmdb:FILE`"))));
  options_.cache_dir = folder_ / "cache2";
  WriteFile(folder_ / "0.tar.gz", shards[0].substr(0, 100));
  EXPECT_THAT(
      std::string(TryOpen(folder_ / "0.tar.gz").status().message()),
      HasSubstr("0.tar.gz: byte 100: the file ends within the compressed"));
}

TEST_F(TarFormatTest, AFolderHasShardsOfOneEnding) {
  const std::string shard = ReadFile(absl::StrCat(kData, "shard-000.tar"));
  const auto plain = ReadAll(*Open(absl::StrCat(kData, "shard-000.tar")));
  WriteFile(folder_ / "b.tar.zstd", Compress(Codec::kZstd, shard));
  const auto packed = Open(folder_.path());
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(*ReadAll(*packed), *plain);
  // The others would be missing from the dataset.
  for (const char* name : {"a.tar", "a.tgz", "a.tar.gz", "A.TAR.BZ2"}) {
    WriteFile(folder_ / name, shard);
    const absl::Status refused = TryOpen(folder_.path()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(name), HasSubstr("b.tar.zstd"),
                      HasSubstr("by a glob, such as " + folder_ / "* for")));
    std::filesystem::remove(folder_ / name);
  }
  // As the error says.
  WriteFile(folder_ / "a.tar", shard);
  const auto all = Open(folder_ / "*");
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->info().samples(), 2 * packed->info().samples());
}

TEST_F(TarFormatTest, ArchivesThatAreRefused) {
  EXPECT_THAT(Refusal(TarEnd()), HasSubstr("the archive has no samples"));
  EXPECT_THAT(Refusal(TarMemberBytes("README", "x") + TarEnd()),
              HasSubstr("the archive has no samples"));
  EXPECT_THAT(Refusal(""), HasSubstr("has no records"));
  EXPECT_THAT(
      Refusal("\x1F\x8B\x08 and so on"),
      AllOf(HasSubstr("compressed (gzip)"), HasSubstr("`gzip -d FILE`")));
  EXPECT_THAT(Refusal("\x28\xB5\x2F\xFD"), HasSubstr("`zstd -d FILE`"));
  EXPECT_THAT(Refusal("BZh9"), HasSubstr("bzip2"));
  EXPECT_THAT(Refusal("\xFD"
                      "7zXZ"),
              AllOf(HasSubstr("compressed (xz), which is not read; gzip, "),
                    HasSubstr("`xz -dc x.tar.xz | zstd -o x.tar.zst`"),
                    ::testing::Not(HasSubstr("give it such a name"))));
  EXPECT_THAT(
      Refusal(TarMemberBytes("1.jpg", std::string(5000, 'x')).substr(0, 3000)),
      HasSubstr("byte 0: the data of member '1.jpg' (5000 bytes) end "
                "after the archive"));
  std::filesystem::remove(folder_ / "x.tar");
  WriteFile(folder_ / "a.tar.xz", "\xFD");
  const auto folder = TryOpen(folder_.path());
  EXPECT_THAT(std::string(folder.status().message()),
              HasSubstr("a.tar.xz is compressed: decompress it and the other "
                        "shards (`xz -d a.tar.xz`)"));
  EXPECT_THAT(std::string(TryOpen(folder_ / "{0..3}.tar").status().message()),
              AllOf(HasSubstr("there is no file"), HasSubstr("0.tar of")));
  EXPECT_TRUE(IsUsageError(TryOpen("").status()));
}

TEST_F(TarFormatTest, AnArrayOfAnotherShapeIsADamagedSample) {
  const std::string rest = folder_ / "x.tar";
  const auto npy = [](int rows) { return Npy("<f4", rows); };
  WriteFile(rest, TarMemberBytes("1.npy", npy(2)) +
                      TarMemberBytes("2.npy", npy(3)) + TarEnd());
  const auto source = Open(rest);
  const auto reader = source->NewReader();
  const auto visit = [](const EncodedSample& sample) {
    EXPECT_EQ(sample.fields[0].size(), 8);
    return absl::OkStatus();
  };
  EXPECT_TRUE((*reader)->Read(0, visit).ok());
  const absl::Status status = (*reader)->Read(1, visit);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(rest + ": the record 2 at byte 1024 is damaged"),
                    HasSubstr("field 'npy' is float32 [3] and in the first "
                              "sample float32 [2]"),
                    HasSubstr("npy:npy:bytes")));
  EXPECT_EQ(GetErrorDetail(status).row(), 1);
  EXPECT_EQ(Open(rest + "?fields=npy:npy:bytes")->info().samples(), 2);
}

}  // namespace
}  // namespace millrace::storage
