// LitData datasets that litdata wrote, and damaged ones.

#include "server/storage/litdata/litdata_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kData = "tests/testdata/litdata";

using Replacements = std::vector<std::pair<std::string, std::string>>;

// A folder with an index of one chunk of (text, integer) samples.
std::string OneChunk(const std::string& chunk,
                     const Replacements& replace = {}) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/chunk-0-0.bin", chunk);
  WriteFile(folder + "/index.json",
            absl::StrReplaceAll(
                absl::StrCat(R"({"chunks": [{"chunk_bytes": )", chunk.size(),
                             R"(, "chunk_size": 1, "dim": null,
                       "filename": "chunk-0-0.bin"}], "config": {
                       "compression": null, "encryption": null,
                       "data_format": ["str", "int"], "data_spec":
                       "[1, {\"type\": \"builtins.tuple\", \"context\": null,
                         \"children_spec\": [{\"type\": null, \"context\": null,
                         \"children_spec\": []}, {\"type\": null,
                         \"context\": null, \"children_spec\": []}]}]",
                       "item_loader": "PyTreeLoader"}})"),
                replace));
  return folder;
}

std::string TextAndInt(const std::string& text, int64_t number) {
  return SizedRecord({text, RawBytes(number)});
}

TEST(LitdataFormatTest, ReadsPhotographsThatLitdataWrote) {
  // Of an old release, whose chunk_bytes count the samples alone, and tuples.
  for (const char* name : {"/photos", "/photos_0_2_20", "/tuples"}) {
    const auto data = ReadAll(LitdataFormat(), kData + name);
    ASSERT_TRUE(data.ok()) << name << data.status();
    ASSERT_EQ(data->rule->schema().fields_size(), 2) << name;
    EXPECT_EQ(data->field("image").kind(), FIELD_KIND_ENCODED_IMAGE) << name;
    EXPECT_EQ(data->field("label").dtype(), DTYPE_INT64) << name;
    EXPECT_EQ(data->rule->class_field(), 1) << name;
    ASSERT_EQ(data->samples.size(), 8u) << name;
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(data->samples[i][0],
                FileBytes(absl::StrCat("tests/testdata/images/exif_", i + 1,
                                       ".jpg")));
      EXPECT_EQ(NumberOf<int64_t>(data->value(i, "label")), i % 3);
    }
  }
}

TEST(LitdataFormatTest, ReadsEveryLeafThatLitdataWrote) {
  const auto data = ReadAll(LitdataFormat(), kData + "/every");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->samples.size(), 3u);
  EXPECT_EQ(data->rule->class_field(), -1);
  for (int i = 0; i < 3; ++i) {
    const auto value = [&](const std::string& name) {
      return data->value(i, name);
    };
    EXPECT_THAT(TextOf(value("image")), Begins("\x89PNG"));
    EXPECT_EQ(NumberOf<int64_t>(value("id")), i);
    EXPECT_EQ(NumberOf<double>(value("score")), 0.5 + i);
    EXPECT_EQ(NumberOf<uint8_t>(value("good")), i % 2);
    EXPECT_EQ(TextOf(value("text")), "sample " + std::string(i, 'x'));
    EXPECT_EQ(TextOf(value("bytes")),
              std::string("\0\1\2", 3).substr(0, i + 1));
    ASSERT_EQ(value("raw").size(), 60u);
    EXPECT_EQ(value("raw")[59], 59 + i);
    EXPECT_EQ(NumberOf<float>(value("grid").subspan(20)), 5.0f + i);
    ASSERT_EQ(value("tokens").size(), 8u * (i + 1));
    EXPECT_EQ(NumberOf<int64_t>(value("tokens").subspan(8 * i)), i);
    EXPECT_EQ(NumberOf<uint16_t>(value("half").subspan(6)), 0x3800);
    EXPECT_EQ(value("mask")[3], i % 2 == 0);
    EXPECT_EQ(NumberOf<int64_t>(value("matrix").subspan(24)), 3 + i);
    EXPECT_EQ(NumberOf<int16_t>(value("vector").subspan(4)), 2 - i);
    EXPECT_EQ(NumberOf<int64_t>(value("nested.y")), i);
    EXPECT_EQ(NumberOf<int64_t>(value("nested.pair.0")), i);
    EXPECT_EQ(NumberOf<double>(value("nested.pair.1")), i);
    EXPECT_EQ(value("none")[0], 0x80);
  }
  const auto is = [&](const std::string& name, FieldKind kind, DType dtype,
                      std::vector<int64_t> shape = {}) {
    const Field& field = data->field(name);
    return field.kind() == kind && field.dtype() == dtype &&
           std::vector<int64_t>(field.shape().begin(), field.shape().end()) ==
               shape;
  };
  EXPECT_TRUE(is("raw", FIELD_KIND_TENSOR, DTYPE_UINT8, {5, 4, 3}));
  EXPECT_TRUE(is("grid", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {2, 3}));
  EXPECT_TRUE(is("half", FIELD_KIND_TENSOR, DTYPE_FLOAT16, {2, 2}));
  EXPECT_TRUE(is("mask", FIELD_KIND_TENSOR, DTYPE_BOOL, {2, 2}));
  EXPECT_TRUE(is("matrix", FIELD_KIND_TENSOR, DTYPE_INT64, {2, 2}));
  EXPECT_TRUE(is("tokens", FIELD_KIND_RAGGED, DTYPE_INT64));
  EXPECT_TRUE(is("vector", FIELD_KIND_RAGGED, DTYPE_INT16));
  EXPECT_TRUE(is("complex", FIELD_KIND_RAGGED, DTYPE_UINT8));
  EXPECT_TRUE(is("good", FIELD_KIND_TENSOR, DTYPE_BOOL));

  const auto fixed =
      ReadAll(LitdataFormat(), kData + "/every", {{"tensor", "vector"}});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_EQ(fixed->field("vector").kind(), FIELD_KIND_TENSOR);
  EXPECT_EQ(fixed->field("vector").shape(0), 3);
  // Of a different length in each sample.
  EXPECT_THAT(ReadAll(LitdataFormat(), kData + "/every", {{"tensor", "tokens"}})
                  .status()
                  .message(),
              HasSubstr("field 'tokens': the value has 16 bytes, not the 8"));
}

TEST(LitdataFormatTest, WhatHasNoSamplesToReadIsRefused) {
  const struct {
    const char* name;
    const char* reason;
  } cases[] = {
      {"/rows", "byte 20: the samples are rows of an Arrow table"},
      {"/tokens", "config.item_loader is 'TokensLoader'"},
  };
  for (const auto& [name, reason] : cases) {
    const auto data = ReadAll(LitdataFormat(), kData + name);
    EXPECT_TRUE(absl::IsUnimplemented(data.status())) << name << data.status();
    EXPECT_THAT(data.status().message(), HasSubstr(reason)) << name;
  }
  // The chunk alone says so where the index does not.
  const std::string framed = FileBytes(kData + "/batches/chunk-0-0.bin");
  EXPECT_THAT(ReadAll(LitdataFormat(), OneChunk(framed)).status().message(),
              Begins("byte 0: the samples are compressed in batches"));
}

TEST(LitdataFormatTest, ReadsCompressedChunksThatLitdataWrote) {
  const auto whole = ReadAll(LitdataFormat(), kData + "/whole");
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->samples.size(), 3u);
  EXPECT_EQ(TextOf(whole->value(2, "0")), "sample 2");
  EXPECT_EQ(NumberOf<int64_t>(whole->value(2, "label")), 2);
  const auto list = LitdataFormat().List(kData + "/whole", {});
  // With and without the table, as the releases of litdata count.
  EXPECT_THAT(list->packed.objects[0].raw_sizes, ElementsAre(92, 92 + 20));
  const auto batches = ReadAll(LitdataFormat(), kData + "/batches");
  ASSERT_TRUE(batches.ok()) << batches.status();
  ASSERT_EQ(batches->samples.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(NumberOf<int64_t>(batches->value(i, "label")), i);
    EXPECT_EQ(batches->value(i, "grid").size(), 64u * sizeof(int64_t));
    EXPECT_EQ(batches->value(i, "grid")[0], i);
  }
}

TEST(LitdataFormatTest, LeavesThatStayBytesAreNamed) {
  const auto list = LitdataFormat().List(kData + "/every", {});
  ASSERT_TRUE(list.ok()) << list.status();
  CopyingWindow window(FileBytes(list->names[0]));
  const auto rule = LitdataFormat().NewRule(*list, {}, window);
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_THAT(LitdataFormat().Notes(*list, {}, **rule),
              ElementsAre("the fields of these columns are the stored bytes: "
                          "'complex' (numpy: a type or a shape that no field "
                          "has), 'none' (pickle: never unpickled)"));
}

TEST(LitdataFormatTest, CompressionsThatAreRefused) {
  const std::string chunk = ChunkOf({TextAndInt("a", 7)});
  const auto refusal = [&](const std::string& compression,
                           const std::string& level) {
    return std::string(
        LitdataFormat()
            .List(OneChunk(chunk,
                           {{"\"compression\": null",
                             absl::StrCat("\"compression\": \"", compression,
                                          "\", \"compression_level\": \"",
                                          level, "\"")}}),
                  {})
            .status()
            .message());
  };
  EXPECT_THAT(refusal("lz4", "chunk"),
              HasSubstr("config.compression is 'lz4'; zstd is supported"));
  EXPECT_THAT(refusal("gz", "chunk"),
              HasSubstr("config.compression is 'gz'; zstd is supported"));
  EXPECT_THAT(refusal("zstd", "other"),
              HasSubstr("config.compression_level is 'other'"));
}

TEST(LitdataFormatTest, ACopyOfTheRowsMayFollowTheSamples) {
  const std::string chunk = ChunkOf({TextAndInt("a", 7)});
  const auto data = ReadAll(
      LitdataFormat(), OneChunk(chunk + "rows" + std::string("LDARW01\0", 8)));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(NumberOf<int64_t>(data->value(0, "label")), 7);
  EXPECT_THAT(ReadAll(LitdataFormat(), OneChunk(chunk + "rows and more"))
                  .status()
                  .message(),
              HasSubstr("13 bytes follow the last of 1 samples"));
}

TEST(LitdataFormatTest, MembersOfTheIndexAreChecked) {
  const auto refused = [](const Replacements& replace) {
    const auto list = LitdataFormat().List(
        OneChunk(ChunkOf({TextAndInt("a", 1)}), replace), {});
    EXPECT_FALSE(list.ok());
    return list.status();
  };
  EXPECT_TRUE(absl::IsUnimplemented(
      refused({{"\"encryption\": null", "\"encryption\": {}"}})));
  EXPECT_THAT(refused({{"PyTreeLoader", "ParquetLoader"}}).message(),
              Ends("serve the Parquet files with parquet:"));
  EXPECT_TRUE(
      absl::IsUnimplemented(refused({{"\"dim\": null", "\"dim\": 5"}})));
  EXPECT_THAT(refused({{"[\"str\", \"int\"]", "[\"str\"]"}}).message(),
              Ends("config.data_spec has 2 leaves, and data_format has 1 "
                   "formats"));
  EXPECT_THAT(refused({{"\"data_format\"", "\"data\""}}).message(),
              Ends("config.data_format is missing"));
  EXPECT_THAT(refused({{"\"chunk_bytes\": ", "\"chunk_bytes\": 1"}}).message(),
              HasSubstr("chunk-0-0.bin has "));
  EXPECT_THAT(refused({{"\"chunk_size\": 1", "\"chunk_size\": 5e9"}}).message(),
              Ends("chunk_size is 5000000000, more than a chunk has"));
  EXPECT_THAT(refused({{"\"chunks\"", "\"shards\""}}).message(),
              HasSubstr("use mds:"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      LitdataFormat().List(kData + "/photos", {{"x", "y"}}).status()));
}

TEST(LitdataFormatTest, DamagedChunksAreDataLoss) {
  const std::string chunk = ChunkOf({TextAndInt("a", 1), TextAndInt("b", 2)});
  const auto list = LitdataFormat().List(OneChunk(chunk), {});
  ASSERT_TRUE(list.ok()) << list.status();
  CopyingWindow whole(chunk);
  const auto rule = LitdataFormat().NewRule(*list, {}, whole);
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_EQ(ScanRecords(LitdataFormat(), **rule, whole)->size(), 2u);
  for (size_t bytes = 0; bytes < chunk.size(); ++bytes) {
    CopyingWindow window(chunk.substr(0, bytes));
    const auto records = ScanRecords(LitdataFormat(), **rule, window);
    EXPECT_TRUE(absl::IsDataLoss(records.status())) << bytes;
  }
  CopyingWindow empty(ChunkOf({}));
  EXPECT_TRUE(absl::IsInvalidArgument(
      LitdataFormat().NewRule(*list, {}, empty).status()));
  const auto restored = LitdataFormat().RestoreRule((*rule)->Encode());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)->Encode(), (*rule)->Encode());
  EXPECT_TRUE(
      absl::IsDataLoss(LitdataFormat().RestoreRule("nothing").status()));
}

}  // namespace
}  // namespace millrace::storage
