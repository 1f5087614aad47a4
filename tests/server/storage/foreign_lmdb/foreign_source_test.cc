// Environments of other programs as datasets: fields, labels, order, refusals,
// files that change or are damaged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/byte_budget.h"
#include "common/usage_error.h"
#include "server/storage/open.h"
#include "tests/server/storage/foreign_lmdb/environment_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Label(int64_t label) { return Scalar(label); }

class ForeignSourceTest : public ::testing::Test {
 protected:
  std::string Uri(const std::string& rest) const {
    return absl::StrCat("lmdb:", folder_ / rest);
  }

  std::unique_ptr<RecordSource> Open(const std::string& rest,
                                     const OpenSourceOptions& options = {}) {
    auto source = OpenRecordSource(Uri(rest), options);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }

  // The error of opening.
  absl::Status Refused(const std::string& rest,
                       const OpenSourceOptions& options = {}) {
    const auto source = OpenRecordSource(Uri(rest), options);
    EXPECT_FALSE(source.ok());
    return source.status();
  }

  std::string Why(const std::string& rest) {
    return std::string(Refused(rest).message());
  }

  Samples All(const std::string& rest) {
    const auto source = Open(rest);
    if (source == nullptr) return {};
    const auto samples = ReadAll(*source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? *samples : Samples();
  }

  std::string Fingerprint(const std::string& rest) {
    const auto source = Open(rest);
    return source == nullptr ? "" : source->info().fingerprint();
  }

  TempFolder folder_;
};

std::string Pixels(int first, int label) {
  std::string data;
  for (int i = 0; i < 12; ++i) data.push_back(static_cast<char>(first + i));
  return DatumBytes(
      {.channels = 3, .height = 2, .width = 2, .data = data, .label = label});
}

std::string EncodedDatum(const std::string& image, int label) {
  return DatumBytes({.channels = 3,
                     .height = 8,
                     .width = 8,
                     .data = image,
                     .label = label,
                     .encoded = true});
}

TEST_F(ForeignSourceTest, EncodedDatumsAreImagesWithLabels) {
  // One in the leaf, one in overflow pages.
  const std::string large = LikePng(std::string(9000, 'x'));
  WriteEnvironment(folder_ / "d",
                   {{"00000001", EncodedDatum(LikePng("b"), 4)},
                    {"00000000", EncodedDatum(large, 0)}},
                   {.folder = true});
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  const DatasetInfo& info = source->info();
  EXPECT_EQ(info.samples(), 2);
  ASSERT_EQ(info.schema().fields_size(), 2);
  EXPECT_EQ(info.schema().fields(0).name(), "image");
  EXPECT_EQ(info.schema().fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(info.schema().fields(1).name(), "label");
  EXPECT_EQ(info.schema().fields(1).num_classes(), 5);
  EXPECT_EQ(info.train_preset(), "imagenet_train");
  ASSERT_EQ(info.shards_size(), 1);
  EXPECT_EQ(info.shards(0).name(), "d/data.mdb");
  EXPECT_EQ(All("d"), (Samples{{large, Label(0)}, {LikePng("b"), Label(4)}}));
  // No lock file appears beside it.
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d/lock.mdb"));
}

TEST_F(ForeignSourceTest, RawDatumsAreTensors) {
  WriteEnvironment(folder_ / "d", {{"0", Pixels(0, 7)}, {"1", Pixels(5, 0)}});
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  const Field& image = source->info().schema().fields(0);
  EXPECT_EQ(image.kind(), FIELD_KIND_TENSOR);
  EXPECT_EQ(image.dtype(), DTYPE_UINT8);
  EXPECT_THAT(image.shape(), ElementsAre(3, 2, 2));
  const Samples samples = All("d");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1][0][0], 5);
  EXPECT_EQ(samples[0][1], Label(7));
}

TEST_F(ForeignSourceTest, FloatDatumsAreTensorsOfFloats) {
  const std::vector<float> numbers = {1, 0.5f, -3, 4};
  const auto datum = [&numbers](bool packed) {
    return DatumBytes({.channels = 4,
                       .height = 1,
                       .width = 1,
                       .label = 1,
                       .floats = numbers,
                       .packed = packed});
  };
  WriteEnvironment(folder_ / "d", {{"0", datum(true)}, {"1", datum(false)}});
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->info().schema().fields(0).dtype(), DTYPE_FLOAT32);
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), 16);
  EXPECT_EQ(All("d"), (Samples{{bytes, Label(1)}, {bytes, Label(1)}}));
}

TEST_F(ForeignSourceTest, ARecordUnlikeTheFirstIsNamedWithItsKey) {
  const struct {
    std::string value;
    std::string why;
  } cases[] = {
      {EncodedDatum(LikePng("x"), 1), "holds an encoded image, unlike"},
      {DatumBytes({.channels = 3, .height = 2, .width = 3, .data = "123"}),
       "has shape [3, 2, 3] instead of [3, 2, 2]"},
      {DatumBytes({.channels = 3, .height = 2, .width = 2, .data = "123"}),
       "has 3 bytes of data and 0 numbers of float_data"},
      {Pixels(0, -1), "gives class index -1: set the option label_offset"},
      {"no protobuf", "byte 0 of the value"},
      {"", "has shape [0, 0, 0]"},
  };
  int number = 0;
  for (const auto& [value, why] : cases) {
    const std::string name = absl::StrCat("d", number++);
    WriteEnvironment(folder_ / name, {{"0", Pixels(0, 7)}, {"1\n\xff", value}});
    const absl::Status status = Refused(name);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(folder_ / name), HasSubstr("key '1\\n\\377'"),
                      HasSubstr(why)));
  }
}

TEST_F(ForeignSourceTest, LabelOptionsApplyToADatum) {
  WriteEnvironment(folder_ / "d", {{"0", Pixels(0, 1)}, {"1", Pixels(0, 3)}});
  const auto source = Open("d?label_offset=-1&num_classes=10");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->info().schema().fields(1).num_classes(), 10);
  EXPECT_EQ(All("d?label_offset=-1")[1][1], Label(2));
  EXPECT_THAT(Why("d?label_offset=-2"),
              HasSubstr("gives class index -1: remove the option label_offset, "
                        "or set it so that"));
  EXPECT_THAT(Why("d?num_classes=2"), HasSubstr("num_classes=2"));
  EXPECT_THAT(Why("d?label=prefix"), HasSubstr("which has labels"));
}

TEST_F(ForeignSourceTest, ImagesAndBytesByKey) {
  WriteEnvironment(folder_ / "images",
                   {{"b", LikePng("2")}, {"a", LikePng("1")}});
  EXPECT_EQ(All("images"), (Samples{{LikePng("1")}, {LikePng("2")}}));
  EXPECT_EQ(Open("images")->info().schema().fields(0).kind(),
            FIELD_KIND_ENCODED_IMAGE);
  // Bytewise order of the keys; an empty value, too.
  WriteEnvironment(folder_ / "bytes",
                   {{"a", "first"}, {"\xff", "last"}, {"a/b", ""}});
  EXPECT_EQ(All("bytes"), (Samples{{"first"}, {""}, {"last"}}));
  const Field field = Open("bytes")->info().schema().fields(0);
  EXPECT_EQ(field.name(), "value");
  EXPECT_EQ(field.kind(), FIELD_KIND_RAGGED);
  EXPECT_EQ(field.dtype(), DTYPE_UINT8);
  EXPECT_THAT(All("images?layout=bytes"), ::testing::SizeIs(2));
  EXPECT_THAT(Why("bytes?layout=image"), HasSubstr("not a JPEG, PNG or WebP"));
  EXPECT_THAT(Why("bytes?layout=images"), HasSubstr("layout=images is wrong"));
}

TEST_F(ForeignSourceTest, ClassesOfThePrefixAreInTheOrderOfFolders) {
  WriteEnvironment(folder_ / "d", {{"dog/1", LikePng("1")},
                                   {"dog-house/1", LikePng("2")},
                                   {"cat_2", LikePng("3")}});
  const auto source = Open("d?label=prefix");
  ASSERT_NE(source, nullptr);
  const Field& label = source->info().schema().fields(1);
  EXPECT_THAT(label.class_names(), ElementsAre("cat", "dog", "dog-house"));
  EXPECT_EQ(label.num_classes(), 3);
  // The samples are in the order of the keys.
  EXPECT_EQ(All("d?label=prefix"), (Samples{{LikePng("3"), Label(0)},
                                            {LikePng("2"), Label(2)},
                                            {LikePng("1"), Label(1)}}));
}

TEST_F(ForeignSourceTest, AFileGivesTheClassesOfThePrefixTheirOrder) {
  WriteEnvironment(folder_ / "d",
                   {{"a/1", LikePng("1")}, {"b/1", LikePng("2")}});
  WriteFile(folder_ / "c.txt", "b\nother\na\n");
  const std::string options =
      absl::StrCat("d?label=prefix&classes=", folder_ / "c.txt");
  EXPECT_EQ(All(options),
            (Samples{{LikePng("1"), Label(2)}, {LikePng("2"), Label(0)}}));
  EXPECT_THAT(Open(options)->info().schema().fields(1).class_names(),
              ElementsAre("b", "other", "a"));
  WriteFile(folder_ / "c.txt", "b\n");
  EXPECT_THAT(Why(options),
              AllOf(HasSubstr("key 'a/1'"), HasSubstr("class 'a'"),
                    HasSubstr("does not name")));
}

TEST_F(ForeignSourceTest, AKeyWithoutAPrefixIsNamed) {
  WriteEnvironment(folder_ / "d", {{"a/1", LikePng("1")}, {"b", LikePng("2")}});
  EXPECT_THAT(Why("d?label=prefix"),
              AllOf(HasSubstr("key 'b'"), HasSubstr("neither '/' nor '_'")));
}

TEST_F(ForeignSourceTest, APatternGivesTheClassOfAKey) {
  WriteEnvironment(folder_ / "d", {{"train/dog/1", LikePng("1")},
                                   {"train/dog-house/1", LikePng("2")},
                                   {"train/cat/2/3", LikePng("3")}});
  const auto source = Open("d?label=train/{class}/*");
  ASSERT_NE(source, nullptr);
  EXPECT_THAT(source->info().schema().fields(1).class_names(),
              ElementsAre("cat", "dog", "dog-house"));
  EXPECT_EQ(All("d?label=train/{class}/*"),
            (Samples{{LikePng("3"), Label(0)},
                     {LikePng("2"), Label(2)},
                     {LikePng("1"), Label(1)}}));
  EXPECT_THAT(Why("d?label=train/{class}"),
              AllOf(HasSubstr("key 'train/cat/2/3'"),
                    HasSubstr("does not match the pattern of the option")));
  EXPECT_THAT(Why("d?label=first"),
              AllOf(HasSubstr("option label=first is wrong: expected prefix"),
                    HasSubstr("or a pattern with {class} once")));
}

// It would be missing from the dataset.
TEST_F(ForeignSourceTest, AnEnvironmentThatIsNoFileIsNamed) {
  std::filesystem::create_directories(folder_ / "all/b");
  WriteEnvironment(folder_ / "all/a", {{"1", LikePng("1")}}, {.folder = true});
  for (const std::string target : {"data.mdb", "/nothing/there"}) {
    std::filesystem::create_symlink(target, folder_ / "all/b/data.mdb");
    for (const std::string path : {"all", "all/b", "all/*"}) {
      EXPECT_THAT(Why(path),
                  AllOf(HasSubstr(folder_ / "all/b/data.mdb"),
                        HasSubstr("is not a regular file but a link that leads "
                                  "nowhere")))
          << path;
    }
    std::filesystem::remove(folder_ / "all/b/data.mdb");
  }
}

TEST_F(ForeignSourceTest, AnotherKeyGivesANameOrANumber) {
  WriteEnvironment(folder_ / "names", {{"1", LikePng("1")},
                                       {"1.txt", "dog\n"},
                                       {"2", LikePng("2")},
                                       {"2.txt", "cat"}});
  const auto source = Open("names?label_key={key}.txt");
  ASSERT_NE(source, nullptr);
  EXPECT_THAT(source->info().schema().fields(1).class_names(),
              ElementsAre("cat", "dog"));
  EXPECT_EQ(All("names?label_key={key}.txt"),
            (Samples{{LikePng("1"), Label(1)}, {LikePng("2"), Label(0)}}));
  EXPECT_THAT(Why("names?label_key={key}.txt&label_offset=1"),
              HasSubstr("the labels are names, and label_offset is for"));
  WriteFile(folder_ / "c.txt", "bird\ncat\ndog\n");
  EXPECT_EQ(All(absl::StrCat("names?label_key={key}.txt&classes=",
                             folder_ / "c.txt")),
            (Samples{{LikePng("1"), Label(2)}, {LikePng("2"), Label(1)}}));
  // Numbers and names do not mix.
  WriteEnvironment(folder_ / "mixed", {{"1", LikePng("1")},
                                       {"1.txt", "dog"},
                                       {"2", LikePng("2")},
                                       {"2.txt", "7"}});
  EXPECT_THAT(
      Why("mixed?label_key={key}.txt"),
      AllOf(HasSubstr("key '2'"), HasSubstr("has label 7, and the first "
                                            "label of the dataset")));
  WriteEnvironment(folder_ / "first", {{"1", LikePng("1")},
                                       {"1.txt", "7"},
                                       {"2", LikePng("2")},
                                       {"2.txt", "dog"}});
  EXPECT_THAT(Why("first?label_key={key}.txt"),
              AllOf(HasSubstr("key '2'"),
                    HasSubstr("has label 'dog', which is no number")));
}

TEST_F(ForeignSourceTest, AFileGivesLabels) {
  WriteEnvironment(folder_ / "d", {{"a", LikePng("1")}, {"b\t", LikePng("2")}});
  WriteFile(folder_ / "l.tsv", "b\t\t7\r\na\t2\nunused\t9\n");
  const std::string options = absl::StrCat("d?labels=", folder_ / "l.tsv");
  EXPECT_EQ(All(options),
            (Samples{{LikePng("1"), Label(2)}, {LikePng("2"), Label(7)}}));
  EXPECT_EQ(Open(options)->info().schema().fields(1).num_classes(), 8);
  EXPECT_THAT(Why(options + "&label_offset=-3"),
              HasSubstr("gives class index -1: remove the option label_offset, "
                        "or set it so that"));
  // One label that is no number makes names of all.
  WriteFile(folder_ / "l.tsv", "b\t\tx\na\t2\n");
  EXPECT_THAT(Open(options)->info().schema().fields(1).class_names(),
              ElementsAre("2", "x"));
  WriteFile(folder_ / "l.tsv", "a\t2\n");
  EXPECT_THAT(Why(options),
              AllOf(HasSubstr("key 'b\\t'"), HasSubstr("has no line in ")));
  WriteFile(folder_ / "l.tsv", "a\t2\nb\t\n");
  EXPECT_THAT(Why(options), HasSubstr("line 2 of "));
  WriteFile(folder_ / "l.tsv", "a\t2\na\t3\n");
  EXPECT_THAT(Why(options), HasSubstr("two lines for key 'a'"));
}

TEST_F(ForeignSourceTest, AnotherKeyGivesTheLabel) {
  WriteEnvironment(folder_ / "d", {{"a", LikePng("1")},
                                   {"a.cls", "3"},
                                   {"b", LikePng("2")},
                                   {"b.cls", " 0\n"}});
  EXPECT_EQ(All("d?label_key={key}.cls"),
            (Samples{{LikePng("1"), Label(3)}, {LikePng("2"), Label(0)}}));
  EXPECT_THAT(Why("d?label_key=L{key}"), HasSubstr("no key 'La'"));
  EXPECT_THAT(Why("d?label_key=cls"), HasSubstr("a pattern with {key}"));
  WriteEnvironment(folder_ / "d", {{"b.cls", "dog"}});
  EXPECT_THAT(Why("d?label_key={key}.cls"),
              AllOf(HasSubstr("key 'b'"), HasSubstr("'dog', which is no num")));
}

TEST_F(ForeignSourceTest, ImagesWithTexts) {
  Entries entries = {{"num-samples", "11"}};
  for (int i = 1; i <= 11; ++i) {
    entries.emplace_back(absl::StrFormat("image-%09d", i),
                         LikePng(std::string(i * 300, 'p')));
    entries.emplace_back(absl::StrFormat("label-%09d", i),
                         absl::StrCat("t", i));
  }
  WriteEnvironment(folder_ / "d", entries, {.folder = true});
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->info().samples(), 11);
  EXPECT_EQ(source->info().schema().fields(1).name(), "text");
  const Samples samples = All("d");
  ASSERT_EQ(samples.size(), 11u);
  for (int i = 1; i <= 11; ++i) {
    EXPECT_EQ(samples[i - 1][0], LikePng(std::string(i * 300, 'p')));
    EXPECT_EQ(samples[i - 1][1], absl::StrCat("t", i));
  }
  WriteEnvironment(folder_ / "d", {{"num-samples", "12"}}, {.folder = true});
  EXPECT_THAT(Why("d"), AllOf(HasSubstr("key 'num-samples'"),
                              HasSubstr("'12', and the environment has 11")));
  WriteEnvironment(folder_ / "d", {{"image-000000012", LikePng("x")}},
                   {.folder = true});
  EXPECT_THAT(Why("d"), AllOf(HasSubstr("key 'image-000000012'"),
                              HasSubstr("no key 'label-000000012'")));
}

TEST_F(ForeignSourceTest, ImagesWithTextsHaveNoLabelsFromKeys) {
  WriteEnvironment(folder_ / "d", {{"num-samples", "1"},
                                   {"image-000000001", LikePng("a")},
                                   {"label-000000001", "text"}});
  WriteFile(folder_ / "l.tsv",
            "image-000000001\t1\nlabel-000000001\t2\nnum-samples\t3\n");
  for (const std::string& option :
       {"labels=" + folder_ / "l.tsv", std::string("label=prefix"),
        std::string("label_key={key}.cls")}) {
    const absl::Status status = Refused("d?" + option);
    EXPECT_TRUE(IsUsageError(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(folder_ / "d has the keys num-samples and"),
                      HasSubstr("remove the option label, labels or")));
  }
  EXPECT_EQ(All("d"), (Samples{{LikePng("a"), "text"}}));
}

TEST_F(ForeignSourceTest, AnImageThatIsNoneIsNamedWithItsKey) {
  WriteEnvironment(
      folder_ / "d",
      {{"a", LikePng("1")}, {"b", "<html>"}, {"c", ""}, {"d", LikePng("2")}});
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  const auto reader = source->NewReader();
  const auto read = [&](int64_t i) {
    return (*reader)->Read(
        i, [](const EncodedSample&) { return absl::OkStatus(); });
  };
  EXPECT_TRUE(read(0).ok());
  for (const auto& [i, why] :
       {std::pair(1, "with key 'b': the value is not a JPEG, PNG or WebP"),
        std::pair(2, "with key 'c': the value is empty")}) {
    const absl::Status status = read(i);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(folder_ / "d: the record "), HasSubstr(why)));
  }
  EXPECT_TRUE(read(3).ok());
}

TEST_F(ForeignSourceTest, NamedDatabasesAreNamed) {
  WriteEnvironment(folder_ / "d", {{"a", "1"}}, {.database = "train"});
  WriteEnvironment(folder_ / "d", {{"b", "22"}}, {.database = "val"});
  WriteEnvironment(folder_ / "d", {{"k", "1"}, {"k", "2"}},
                   {.database = "dups", .flags = MDB_DUPSORT});
  EXPECT_THAT(Why("d"), AllOf(HasSubstr("named databases: dups, train, val"),
                              HasSubstr("option db=dups")));
  EXPECT_EQ(All("d?db=train"), (Samples{{"1"}}));
  EXPECT_EQ(All("d?db=val"), (Samples{{"22"}}));
  EXPECT_THAT(Why("d?db=vall"), AllOf(HasSubstr("no database vall"),
                                      HasSubstr("has dups, train")));
  const absl::Status dups = Refused("d?db=dups");
  EXPECT_TRUE(absl::IsUnimplemented(dups)) << dups;
  EXPECT_THAT(std::string(dups.message()),
              HasSubstr("several values for a key"));
  // Beside plain records.
  WriteEnvironment(folder_ / "mixed", {{"a", "1"}});
  WriteEnvironment(folder_ / "mixed", {{"k", "1"}}, {.database = "named"});
  EXPECT_THAT(Why("mixed"), AllOf(HasSubstr("key 'named'"),
                                  HasSubstr("named database beside")));
}

TEST_F(ForeignSourceTest, SeveralValuesForAKeyAreRefused) {
  WriteEnvironment(folder_ / "d", {{"k", "1"}, {"k", "2"}},
                   {.flags = MDB_DUPSORT});
  EXPECT_THAT(Why("d?layout=bytes"), HasSubstr("several values for a key"));
}

TEST_F(ForeignSourceTest, AnEmptyEnvironmentIsRefused) {
  WriteEnvironment(folder_ / "d", {}, {.folder = true});
  const absl::Status status = Refused("d");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no records"));
}

TEST_F(ForeignSourceTest, SeveralEnvironmentsAreShardsInOrder) {
  WriteEnvironment(folder_ / "s/b", {{"0", Pixels(3, 5)}}, {.folder = true});
  WriteEnvironment(folder_ / "s/a", {{"9", Pixels(1, 1)}, {"0", Pixels(0, 0)}},
                   {.folder = true});
  WriteFile(folder_ / "s/a/lock.mdb", "lock");
  WriteFile(folder_ / "s/readme.txt", "text");
  for (const std::string name : {"s", "s/[ab]", "s/[ab]/*"}) {
    const Samples samples = All(name);
    ASSERT_EQ(samples.size(), 3u) << name;
    EXPECT_EQ(samples[1][0][0], 1);
    EXPECT_EQ(samples[2][1], Label(5));
  }
  const auto source = Open("s");
  ASSERT_EQ(source->info().shards_size(), 2);
  EXPECT_EQ(source->info().shards(1).name(), "b/data.mdb");
  EXPECT_EQ(source->info().shards(1).first_sample(), 2);
  EXPECT_EQ(source->info().schema().fields(1).num_classes(), 6);
  // A glob names everything that it matches.
  EXPECT_THAT(Why("s/*"), HasSubstr("s/readme.txt"));
}

TEST_F(ForeignSourceTest, AShardOfAnotherLayoutIsNamed) {
  WriteEnvironment(folder_ / "s/a", {{"0", Pixels(3, 5)}}, {.folder = true});
  WriteEnvironment(folder_ / "s/b", {{"0", LikePng("x")}}, {.folder = true});
  EXPECT_THAT(Why("s"), AllOf(HasSubstr("s/b/data.mdb"), HasSubstr("key '0'")));
}

TEST_F(ForeignSourceTest, OptionsAreForOtherPrograms) {
  ASSERT_TRUE(Pack(Uri("ours.lmdb"), ImageDataset(3), ImageSamples(3)).ok());
  EXPECT_THAT(Why("ours.lmdb?label=prefix"),
              HasSubstr("written by `millrace-data pack`"));
  EXPECT_THAT(Why("nothing?label=prefix"), HasSubstr("no LMDB environment at"));
  WriteEnvironment(folder_ / "d", {{"a", "1"}});
  EXPECT_THAT(Why("d?lable=prefix"), AllOf(HasSubstr("no option 'lable'"),
                                           HasSubstr("did you mean label?")));
  EXPECT_THAT(Why("d?label=prefix&labels=x"), HasSubstr("exclude each other"));
  WriteEnvironment(folder_ / "x/a", {{"a", "1"}}, {.folder = true});
  std::filesystem::copy(folder_ / "ours.lmdb", folder_ / "x/z.lmdb");
  EXPECT_THAT(Why("x"), AllOf(HasSubstr("z.lmdb was written by"),
                              HasSubstr("two datasets")));
}

TEST_F(ForeignSourceTest, FingerprintsTellKeysLengthsLabelsAndCommits) {
  WriteEnvironment(folder_ / "a",
                   {{"a/1", LikePng("1")}, {"b/1", LikePng("2")}});
  std::filesystem::copy(folder_ / "a", folder_ / "copy");
  const std::string fingerprint = Fingerprint("a");
  EXPECT_EQ(fingerprint.size(), 32u);
  EXPECT_EQ(Fingerprint("copy"), fingerprint);
  EXPECT_NE(Fingerprint("a?label=prefix"), fingerprint);
  WriteEnvironment(folder_ / "other",
                   {{"a/1", LikePng("1")}, {"b/2", LikePng("2")}});
  EXPECT_NE(Fingerprint("other"), fingerprint);
  // The same keys and lengths, written again.
  WriteEnvironment(folder_ / "copy", {{"a/1", LikePng("9")}});
  EXPECT_NE(Fingerprint("copy"), fingerprint);
}

TEST_F(ForeignSourceTest, TheFingerprintIsNotThatOfTheContent) {
  const Samples samples = {{LikePng("1"), Label(0)}};
  DatasetInfo info = ImageDataset(1);
  ASSERT_TRUE(Pack(Uri("packed.lmdb"), info, samples).ok());
  WriteEnvironment(folder_ / "d", {{"0", EncodedDatum(LikePng("1"), 0)}});
  WriteFile(folder_ / "c.txt",
            absl::StrJoin(info.schema().fields(1).class_names(), "\n"));
  const std::string uri = absl::StrCat("d?classes=", folder_ / "c.txt");
  EXPECT_EQ(All(uri), All("packed.lmdb"));
  EXPECT_NE(Fingerprint(uri), Fingerprint("packed.lmdb"));
}

TEST_F(ForeignSourceTest, AnEnvironmentThatGrowsIsNoticed) {
  WriteEnvironment(folder_ / "d", {{"0", Pixels(0, 0)}, {"1", Pixels(1, 0)}},
                   {.folder = true});
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  EXPECT_TRUE(source->CheckFiles().ok());
  WriteEnvironment(folder_ / "d", {{"2", Pixels(2, 0)}}, {.folder = true});
  const absl::Status status = source->CheckFilesOf({0});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("d/data.mdb grew from"));
  EXPECT_EQ(source->info().samples(), 2);
  EXPECT_EQ(All("d").size(), 3u);
}

TEST_F(ForeignSourceTest, ATruncatedFileIsRefused) {
  Entries entries;
  for (int i = 0; i < 50; ++i) {
    entries.emplace_back(absl::StrFormat("%03d", i),
                         LikePng(std::string(5000, 'x')));
  }
  WriteEnvironment(folder_ / "d", entries, {.folder = true});
  std::filesystem::resize_file(folder_ / "d/data.mdb", 100'000);
  const absl::Status status = Refused("d");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is truncated"));
  WriteFile(folder_ / "d/data.mdb", "short");
  EXPECT_THAT(Why("d"), HasSubstr("d/data.mdb"));
}

TEST_F(ForeignSourceTest, TheIndexCountsInTheMemoryBudget) {
  Entries entries;
  for (int i = 0; i < 1000; ++i) {
    entries.emplace_back(absl::StrFormat("c%d/%04d", i % 7, i), "value");
  }
  WriteEnvironment(folder_ / "d", entries);
  ByteBudget budget(20'000);
  OpenSourceOptions options{.metadata_budget = &budget};
  options.metadata_advice = [](uint64_t bytes, const DatasetInfo*) {
    return absl::StrCat("set it to ", bytes);
  };
  {
    const auto source = Open("d", options);
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(budget.used(), 12'000u);
    EXPECT_EQ(source->metadata_bytes(), 12'000u);
  }
  EXPECT_EQ(budget.used(), 0u);
  ByteBudget small(15'999);
  options.metadata_budget = &small;
  const absl::Status status = Refused("d?label=prefix", options);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1,000 keys in 1 file"), HasSubstr("16000"),
                    HasSubstr("15999"), HasSubstr("set it to 16000")));
  EXPECT_EQ(small.used(), 0u);
}

TEST_F(ForeignSourceTest, AMillionKeys) {
  Entries entries;
  constexpr int kKeys = 1'000'000;
  entries.reserve(kKeys);
  for (int i = 0; i < kKeys; ++i) {
    entries.emplace_back(absl::StrFormat("%07d", i), absl::StrCat(i));
  }
  WriteEnvironment(folder_ / "d", entries);
  const auto source = Open("d");
  ASSERT_NE(source, nullptr);
  ASSERT_EQ(source->info().samples(), kKeys);
  const auto reader = source->NewReader();
  ASSERT_TRUE(reader.ok());
  for (const int i : {0, 1, 12345, kKeys - 1}) {
    std::string value;
    ASSERT_TRUE((*reader)
                    ->Read(i,
                           [&value](const EncodedSample& sample) {
                             value.assign(sample.fields[0].begin(),
                                          sample.fields[0].end());
                             return absl::OkStatus();
                           })
                    .ok());
    EXPECT_EQ(value, absl::StrCat(i));
  }
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->Read(
      kKeys, [](const EncodedSample&) { return absl::OkStatus(); })));
}

// A value whose overflow pages are overwritten is found when it is read, and
// its key is named.
TEST_F(ForeignSourceTest, ALostValueIsNamedWithItsKey) {
  WriteEnvironment(folder_ / "d", {{"a", LikePng(std::string(9000, 'x'))},
                                   {"b", LikePng(std::string(9000, 'y'))}});
  std::string bytes = ReadFile(folder_ / "d");
  const size_t at = bytes.find(LikePng("yyyy"));
  ASSERT_NE(at, bytes.npos);
  bytes[at - 6] = 0x40;  // the kind of the page
  WriteFile(folder_ / "broken", bytes);
  const auto source = Open("broken");
  ASSERT_NE(source, nullptr);
  const auto reader = source->NewReader();
  const auto take = [](const EncodedSample&) { return absl::OkStatus(); };
  EXPECT_TRUE((*reader)->Read(0, take).ok());
  const absl::Status status = (*reader)->Read(1, take);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("key 'b'"), HasSubstr("do not hold its value")));
}

// Every page in turn is damaged. LMDB's own library ends the process over some
// of these files (run under ASan).
TEST_F(ForeignSourceTest, NoDamageEndsTheProcess) {
  std::mt19937_64 random(11);
  Entries entries;
  for (int i = 0; i < 120; ++i) {
    entries.emplace_back(
        absl::StrFormat("c%d/%04d", i % 5, i),
        EncodedDatum(LikePng(std::string(random() % 6 == 0 ? 6000 : 60, 'x')),
                     i % 5));
  }
  WriteEnvironment(folder_ / "d", entries);
  const std::string whole = ReadFile(folder_ / "d");
  int refused = 0, good = 0;
  for (size_t page = 0; page < whole.size() / 4096; ++page) {
    for (int way = 0; way < 6; ++way) {
      std::string bytes = whole;
      char* const at = &bytes[page * 4096];
      const int changes = way < 4 ? 1 << way : 4096;
      for (int i = 0; i < changes; ++i) {
        const size_t limit = way % 2 == 0 ? 64 : 4096;
        at[random() % limit] = static_cast<char>(random());
      }
      WriteFile(folder_ / "broken", bytes);
      const auto source =
          OpenRecordSource(Uri("broken?layout=datum"), OpenSourceOptions());
      if (!source.ok()) {
        EXPECT_THAT(std::string(source.status().message()),
                    HasSubstr("broken"));
        ++refused;
        continue;
      }
      const auto reader = (*source)->NewReader();
      uint64_t sum = 0;
      for (int64_t i = 0; i < (*source)->info().samples(); ++i) {
        const absl::Status status =
            (*reader)->Read(i, [&sum](const EncodedSample& sample) {
              for (const auto& field : sample.fields) {
                for (const uint8_t byte : field) sum += byte;
              }
              return absl::OkStatus();
            });
        good += status.ok() ? 1 : 0;
      }
      EXPECT_NE(sum, 1u);
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(good, 100);
}

}  // namespace
}  // namespace millrace::storage
