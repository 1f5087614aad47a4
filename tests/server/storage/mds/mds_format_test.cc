// MDS datasets that mosaicml-streaming wrote, and damaged ones.

#include "server/storage/mds/mds_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_replace.h"
#include "server/storage/mds/mds_index.h"
#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using Replacements = std::vector<std::pair<std::string, std::string>>;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kData = "tests/testdata/mds";

// A folder with an index of one shard, which has `shard`. `replace`: in the
// index.
std::string OneShard(
    const std::string& shard, const std::string& columns,
    const std::vector<std::pair<std::string, std::string>>& replace = {}) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/shard.00000.mds", shard);
  WriteFile(
      folder + "/index.json",
      absl::StrReplaceAll(
          absl::StrCat(R"({"shards": [{)", columns,
                       R"(, "compression": null, "format": "mds", "hashes": [],
                    "raw_data": {"basename": "shard.00000.mds", "bytes": )",
                       shard.size(), R"(, "hashes": {}}, "samples": 1,
                    "size_limit": 1, "version": 2, "zip_data": null}],
                    "version": 2})"),
          replace));
  return folder;
}

const std::string kTextAndInt =
    R"("column_names": ["text", "y"], "column_encodings": ["str", "int"],
       "column_sizes": [null, 8])";

std::string TextAndInt(const std::string& text, int64_t y) {
  return RawBytes(static_cast<uint32_t>(text.size())) + text + RawBytes(y);
}

TEST(MdsFormatTest, ReadsPhotographsThatStreamingWrote) {
  const auto data = ReadAll(MdsFormat(), kData + "/photos");
  ASSERT_TRUE(data.ok()) << data.status();
  const Schema& schema = data->rule->schema();
  ASSERT_EQ(schema.fields_size(), 2);
  EXPECT_EQ(schema.fields(0).name(), "image");
  EXPECT_EQ(schema.fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(schema.fields(1).name(), "label");
  EXPECT_EQ(schema.fields(1).dtype(), DTYPE_INT64);
  EXPECT_EQ(data->rule->class_field(), 1);
  ASSERT_EQ(data->samples.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(
        data->samples[i][0],
        FileBytes(absl::StrCat("tests/testdata/images/exif_", i + 1, ".jpg")));
    EXPECT_EQ(NumberOf<int64_t>(data->value(i, "label")), i % 3);
  }
}

TEST(MdsFormatTest, ReadsEveryEncodingThatStreamingWrote) {
  const auto data = ReadAll(MdsFormat(), kData + "/every");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->samples.size(), 3u);
  // The only encoded image and the integer `class`.
  EXPECT_EQ(data->rule->schema().fields(0).name(), "image");
  EXPECT_EQ(data->rule->schema().fields(1).name(), "label");
  EXPECT_EQ(data->rule->class_field(), 1);
  for (int i = 0; i < 3; ++i) {
    const auto value = [&](const std::string& name) {
      return data->value(i, name);
    };
    EXPECT_EQ(NumberOf<int64_t>(value("label")), 2 - i);
    EXPECT_EQ(NumberOf<uint8_t>(value("a_uint8")), 100 + i);
    EXPECT_EQ(NumberOf<int32_t>(value("a_uint16")), 100 + i);
    EXPECT_EQ(NumberOf<int64_t>(value("a_uint32")), 100 + i);
    EXPECT_EQ(NumberOf<int64_t>(value("a_uint64")), 100 + i);
    EXPECT_EQ(NumberOf<int32_t>(value("a_int8")), -100 - i);
    EXPECT_EQ(NumberOf<int32_t>(value("a_int16")), -100 - i);
    EXPECT_EQ(NumberOf<int32_t>(value("a_int32")), -100 - i);
    EXPECT_EQ(NumberOf<int64_t>(value("a_int64")), -100 - i);
    EXPECT_EQ(value("a_float16").size(), 2u);
    EXPECT_EQ(NumberOf<float>(value("a_float32")), 0.5f + i);
    EXPECT_EQ(NumberOf<double>(value("a_float64")), 0.5 + i);
    EXPECT_EQ(TextOf(value("bytes")),
              std::string("\0\1\2", 3).substr(0, i + 1));
    EXPECT_EQ(TextOf(value("text")), "sample " + std::string(i, 'x'));
    EXPECT_EQ(TextOf(value("decimal")), absl::StrCat(1 + i, ".25"));
    EXPECT_EQ(NumberOf<int64_t>(value("digits")), 1'000'000'000'000 + i);
    EXPECT_EQ(NumberOf<double>(value("float_text")), 0.25 + i);
    EXPECT_EQ(TextOf(value("json")), absl::StrCat("{\"i\": ", i, "}"));
    EXPECT_THAT(TextOf(value("image")), Begins("\x89PNG"));
    // The number of images, as litdata and streaming write a list.
    EXPECT_EQ(value("photos")[0], 2);
    EXPECT_EQ(value("pickle")[0], 0x80);
    EXPECT_EQ(TextOf(value("free")),
              RawBytes<int64_t>(i) + RawBytes<int64_t>(i) +
                  RawBytes<int64_t>(i) + RawBytes<int64_t>(i));
    EXPECT_EQ(NumberOf<float>(value("free_shape").subspan(8)), i);
    EXPECT_EQ(NumberOf<int16_t>(value("grid").subspan(10)), 5 - i);
    EXPECT_EQ(NumberOf<int64_t>(value("pairs").subspan(8)), 4'000'000'000);
    ASSERT_EQ(value("raw").size(), 60u);
    EXPECT_EQ(value("raw")[59], 59 + i);
  }
  const auto shape = [&](const std::string& name) {
    const auto& extents = data->field(name).shape();
    return std::vector<int64_t>(extents.begin(), extents.end());
  };
  EXPECT_EQ(shape("raw"), (std::vector<int64_t>{5, 4, 3}));
  EXPECT_EQ(shape("free"), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(shape("grid"), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(data->field("grid").dtype(), DTYPE_INT16);
  EXPECT_EQ(data->field("pairs").dtype(), DTYPE_INT64);
  EXPECT_EQ(data->field("text").kind(), FIELD_KIND_RAGGED);
}

TEST(MdsFormatTest, ColumnsThatStayBytesAreNamed) {
  const auto list = MdsFormat().List(kData + "/every", {});
  ASSERT_TRUE(list.ok()) << list.status();
  CopyingWindow window(FileBytes(list->names[0]));
  const auto rule = MdsFormat().NewRule(*list, {}, window);
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_THAT(
      MdsFormat().Notes(*list, {}, **rule),
      ElementsAre("the fields of these columns are the stored bytes: "
                  "'decimal' (str_decimal: an encoding that the server does "
                  "not interpret), 'photos' (jpeg_array: an encoding that the "
                  "server does not interpret), 'pickle' (pkl: never "
                  "unpickled)"));
  // Who asks for bytes expects them.
  const FormatOptions options = {{"ragged", "decimal,photos,pickle,raw"}};
  const auto chosen = MdsFormat().NewRule(*list, options, window);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_THAT(MdsFormat().Notes(*list, options, **chosen), ElementsAre());
}

TEST(MdsFormatTest, ARawImageOfAnOddModeIsNamed) {
  std::string image = RawBytes(uint32_t{2}) + RawBytes(uint32_t{1}) +
                      RawBytes(uint32_t{1}) + "P" + "ab";
  const std::string folder =
      OneShard(ChunkOf({SizedRecord({image, std::string(1, 'x')})}), R"(
        "column_names": ["photo", "text"], "column_encodings": ["pil", "str"],
        "column_sizes": [null, null])");
  const auto list = MdsFormat().List(folder, {});
  ASSERT_TRUE(list.ok()) << list.status();
  CopyingWindow window(FileBytes(list->names[0]));
  const auto rule = MdsFormat().NewRule(*list, {}, window);
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_THAT(MdsFormat().Notes(*list, {}, **rule),
              ElementsAre(HasSubstr("this column are the stored bytes: 'photo' "
                                    "(pil: a mode of PIL other than")));
}

TEST(MdsFormatTest, ARestoredRuleIsTheSame) {
  const auto list = MdsFormat().List(kData + "/every", {});
  ASSERT_TRUE(list.ok()) << list.status();
  CopyingWindow window(FileBytes(list->names[0]));
  const auto rule = MdsFormat().NewRule(*list, {{"ragged", "raw"}}, window);
  ASSERT_TRUE(rule.ok()) << rule.status();
  const auto same = MdsFormat().RestoreRule((*rule)->Encode());
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ((*same)->Encode(), (*rule)->Encode());
  EXPECT_EQ(ScanRecords(MdsFormat(), **same, window)->size(), 3u);
}

TEST(MdsFormatTest, ReadsCompressedShardsThatMosaicWrote) {
  for (const std::string codec : {"zstd", "gz", "bz2", "br", "snappy"}) {
    const auto list = MdsFormat().List(absl::StrCat(kData, "/", codec), {});
    ASSERT_TRUE(list.ok()) << codec << list.status();
    EXPECT_THAT(list->names[0], Ends("/shard.00000.mds." + codec));
    ASSERT_TRUE(list->packed.any()) << codec;
    EXPECT_EQ(list->packed.objects[0].unpacker->name(), codec);
    EXPECT_THAT(list->packed.objects[0].raw_sizes, SizeIs(1));
    const auto data = ReadAll(MdsFormat(), absl::StrCat(kData, "/", codec));
    ASSERT_TRUE(data.ok()) << codec << data.status();
    ASSERT_EQ(data->samples.size(), 2u);
    EXPECT_EQ(TextOf(data->value(1, "text")), "sample");
  }
}

TEST(MdsFormatTest, AShardThatWasDecompressedBesideTheIndexIsRead) {
  const std::string folder =
      OneShard(ChunkOf({TextAndInt("a", 1)}), kTextAndInt,
               {{"\"compression\": null", "\"compression\": \"zstd\""}});
  const auto list = MdsFormat().List(folder, {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_FALSE(list->packed.any());
  EXPECT_TRUE(ReadAll(MdsFormat(), folder).ok());
}

TEST(MdsFormatTest, CompressedShardsThatAreRefused) {
  const auto refusal = [](const Replacements& replace) {
    const std::string folder =
        OneShard(ChunkOf({TextAndInt("a", 1)}), kTextAndInt, replace);
    EXPECT_EQ(std::rename((folder + "/shard.00000.mds").c_str(),
                          (folder + "/packed").c_str()),
              0);
    const auto list = MdsFormat().List(folder, {});
    EXPECT_FALSE(list.ok());
    return std::string(list.status().message());
  };
  const auto compression = [](const std::string& name, const std::string& zip) {
    return Replacements{{"\"compression\": null",
                         absl::StrCat("\"zip_data\": ", zip,
                                      ", \"compression\": \"", name, "\"")},
                        {", \"zip_data\": null", ""}};
  };
  EXPECT_THAT(refusal(compression("lz4", "null")),
              HasSubstr("shards[0].compression is 'lz4'; zstd, gz, bz2, br and "
                        "snappy are supported"));
  EXPECT_THAT(
      refusal(compression("zstd", R"({"basename": "packed", "bytes": 7})")),
      AllOf(HasSubstr("/packed has "), HasSubstr("by "),
            HasSubstr("zip_data.bytes it has 7")));
  EXPECT_THAT(
      refusal(compression("zstd", R"({"basename": "gone", "bytes": 7})")),
      HasSubstr("is missing: copy the whole folder"));
  EXPECT_THAT(
      refusal(compression("zstd", R"({"basename": "../x", "bytes": 7})")),
      HasSubstr("is no name of a file in the folder of the index"));
}

TEST(MdsFormatTest, AShardThatIsNoFileIsNamed) {
  const std::string folder =
      OneShard(ChunkOf({TextAndInt("a", 1)}), kTextAndInt);
  const std::string shard = folder + "/shard.00000.mds";
  ASSERT_EQ(unlink(shard.c_str()), 0);
  ASSERT_EQ(mkfifo(shard.c_str(), 0600), 0);
  EXPECT_THAT(std::string(MdsFormat().List(folder, {}).status().message()),
              AllOf(HasSubstr(shard), HasSubstr("is not a regular file")));
}

TEST(MdsFormatTest, OptionsNameColumns) {
  const std::string folder =
      OneShard(ChunkOf({TextAndInt("a", 1)}), kTextAndInt);
  EXPECT_EQ(ReadAll(MdsFormat(), folder, {{"image", "text"}})
                ->rule->schema()
                .fields(0)
                .kind(),
            FIELD_KIND_ENCODED_IMAGE);
  EXPECT_THAT(
      ReadAll(MdsFormat(), folder, {{"label", "text"}}).status().message(),
      HasSubstr("option label=text: a label is one integer"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MdsFormat().List(folder, {{"labels", "y"}}).status()));
}

TEST(MdsFormatTest, TheShardMustHaveTheSizeOfTheIndex) {
  const std::string shard = ChunkOf({TextAndInt("a", 1)});
  const std::string folder = OneShard(shard, kTextAndInt);
  WriteFile(folder + "/shard.00000.mds", shard.substr(1));
  const auto list = MdsFormat().List(folder, {});
  EXPECT_TRUE(absl::IsDataLoss(list.status()));
  EXPECT_THAT(list.status().message(),
              HasSubstr(absl::StrCat("shard.00000.mds has ", shard.size() - 1,
                                     " bytes, and by ")));
  EXPECT_THAT(
      list.status().message(),
      HasSubstr(absl::StrCat("index.json: shards[0].raw_data.bytes it has ",
                             shard.size())));
  ASSERT_EQ(unlink((folder + "/shard.00000.mds").c_str()), 0);
  EXPECT_THAT(MdsFormat().List(folder, {}).status().message(),
              HasSubstr("is missing"));
}

TEST(MdsFormatTest, MembersOfTheIndexAreChecked) {
  const auto refused =
      [](const std::vector<std::pair<std::string, std::string>>& replace) {
        const std::string folder =
            OneShard(ChunkOf({TextAndInt("a", 1)}), kTextAndInt, replace);
        const auto list = MdsFormat().List(folder, {});
        EXPECT_FALSE(list.ok());
        return list.status();
      };
  EXPECT_TRUE(
      absl::IsUnimplemented(refused({{"\"version\": 2}", "\"version\": 3}"}})));
  EXPECT_TRUE(absl::IsUnimplemented(
      refused({{"\"format\": \"mds\"", "\"format\": \"csv\""}})));
  EXPECT_TRUE(absl::IsDataLoss(refused({{"\"version\": 2}", "\"v\": 2}"}})));
  EXPECT_THAT(refused({{"\"bytes\": ", "\"bytes\": -"}}).message(),
              Ends("shards[0].raw_data.bytes is no whole number"));
  EXPECT_THAT(refused({{"[null, 8]", "[8]"}}).message(),
              HasSubstr("column_names has 2 columns, column_encodings has 2 "
                        "and column_sizes has 1"));
  EXPECT_THAT(refused({{"\"y\"", "\"text\""}}).message(),
              HasSubstr("column_names has a column twice"));
  EXPECT_THAT(refused({{"\"shard.00000.mds\"", "\"../a.mds\""}}).message(),
              HasSubstr("'../a.mds' is no name of a file"));
  EXPECT_THAT(refused({{"\"shards\"", "\"chunks\""}}).message(),
              HasSubstr("use litdata:"));
}

TEST(MdsFormatTest, ShardsOfDifferentColumnsAreTwoDatasets) {
  const std::string folder = NewFolder();
  std::string index = FileBytes(kData + "/photos/index.json");
  for (int i = 0; i < 3; ++i) {
    const std::string name = absl::StrCat("/shard.0000", i, ".mds");
    WriteFile(folder + name, FileBytes(kData + "/photos" + name));
  }
  const size_t last = index.rfind("\"int\"");
  index.replace(last, 5, "\"int64\"");
  WriteFile(folder + "/index.json", index);
  const auto list = MdsFormat().List(folder, {});
  EXPECT_TRUE(absl::IsDataLoss(list.status()));
  EXPECT_THAT(list.status().message(),
              AllOf(HasSubstr("shards[0] and shards[2] have different columns"),
                    HasSubstr("int64")));
}

TEST(MdsFormatTest, AnIndexWithoutShardsIsEmpty) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/index.json", R"({"shards": [], "version": 2})");
  EXPECT_TRUE(absl::IsNotFound(MdsFormat().List(folder, {}).status()));
}

TEST(MdsFormatTest, TheConfigOfAShardMustAgreeWithTheIndex) {
  const auto scan = [](const std::string& config) {
    const std::string folder =
        OneShard(ChunkOf({TextAndInt("a", 1)}, config), kTextAndInt);
    return ReadAll(MdsFormat(), folder).status();
  };
  EXPECT_TRUE(scan("{" + kTextAndInt + "}").ok());
  EXPECT_TRUE(scan("").ok());
  EXPECT_THAT(
      scan("{" + absl::StrReplaceAll(kTextAndInt, {{"\"y\"", "\"z\""}}) + "}")
          .message(),
      AllOf(Begins("byte 12: the shard's config has the columns text, z "
                   "and index.json has text, y"),
            HasSubstr("of another dataset")));
  EXPECT_THAT(scan("damaged").message(),
              Begins("byte 12: the shard's config is damaged: it is no "
                     "JSON"));
  EXPECT_THAT(scan(std::string((1 << 20) + 1, ' ')).message(),
              HasSubstr("more than the limit"));
}

TEST(MdsFormatTest, ADamagedFirstSampleIsDataLoss) {
  const std::string folder =
      OneShard(ChunkOf({RawBytes<uint32_t>(100) + "a"}), kTextAndInt);
  const auto data = ReadAll(MdsFormat(), folder);
  EXPECT_TRUE(absl::IsDataLoss(data.status()));
  EXPECT_THAT(data.status().message(), Begins("field 'text': "));
}

TEST(MdsIndexTest, ManyShardsAreListed) {
  const std::string folder = NewFolder();
  std::string index = R"({"version": 2, "shards": [)";
  for (int i = 0; i < 2'000; ++i) {
    absl::StrAppend(&index, i == 0 ? "" : ", ", "{", kTextAndInt, R"(,
        "compression": null, "format": "mds", "hashes": [], "raw_data":
        {"basename": "shard", "bytes": 3, "hashes": {}}, "samples": 1,
        "size_limit": 1, "version": 2, "zip_data": null})");
  }
  WriteFile(folder + "/index.json", index + "]}");
  WriteFile(folder + "/shard", "abc");
  const auto list = ListMdsShards(folder);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->names.size(), 2'000u);
}

}  // namespace
}  // namespace millrace::storage
