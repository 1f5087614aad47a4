// arrow: sources over files that Arrow writes here: both IPC formats, all
// column types that become fields, compression, and damaged files.

#include "server/storage/arrow/arrow_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "proto/error_detail.h"
#include "server/storage/open.h"
#include "tests/server/storage/arrow/ipc_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<NamedArray> Photographs() {
  return {{"image", Json(ImageType(), R"([{"bytes": "one", "path": "1.jpg"},
                                          {"bytes": "", "path": null},
                                          {"bytes": "three", "path": null}])")},
          {"label", Json(arrow::int64(), "[1, 0, 1]")}};
}

class ArrowSourceTest : public ::testing::Test {
 protected:
  std::string Uri(absl::string_view name) const {
    return absl::StrCat("arrow:", folder_ / name);
  }
  absl::StatusOr<std::unique_ptr<RecordSource>> Open(
      absl::string_view name, const OpenSourceOptions& options = {}) {
    return OpenRecordSource(Uri(name), options);
  }
  Samples Read(absl::string_view name) {
    const auto source = Open(name);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    const auto samples = ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.value_or(Samples());
  }
  // The error of opening or of reading everything.
  absl::Status Error(absl::string_view name,
                     const OpenSourceOptions& options = {}) {
    const auto source = Open(name, options);
    return source.ok() ? ReadAll(**source).status() : source.status();
  }
  // One column as the only field, by each way of writing the file.
  void ExpectColumn(const std::shared_ptr<arrow::DataType>& type,
                    const std::string& json,
                    const std::vector<std::string>& values,
                    const std::string& features = "") {
    for (const bool stream : {false, true}) {
      for (const auto codec :
           {arrow::Compression::UNCOMPRESSED, arrow::Compression::LZ4_FRAME,
            arrow::Compression::ZSTD}) {
        WriteIpc(folder_ / "c.arrow",
                 {{"before", Json(arrow::list(arrow::utf8()),
                                  R"([["a"], [], ["b", "c"]])")},
                  {"x", Json(type, json)},
                  {"after", Json(arrow::int64(), "[7, 8, 9]")}},
                 {.stream = stream, .codec = codec, .features = features});
        const Samples samples = Read("c.arrow");
        ASSERT_THAT(samples, SizeIs(3)) << type->ToString();
        for (size_t i = 0; i < 3; ++i) {
          ASSERT_THAT(samples[i],
                      ElementsAre(values[i], Scalar<int64_t>(7 + i)))
              << type->ToString() << " stream " << stream << " row " << i;
        }
      }
    }
  }
  Field FieldOf(absl::string_view name, int i) {
    const auto source = Open(name);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info().schema().fields(i) : Field();
  }

  TempFolder folder_;
};

TEST_F(ArrowSourceTest, BothFormatsGiveImagesAndClassNames) {
  for (const bool stream : {false, true}) {
    WriteIpc(folder_ / "d.arrow", Photographs(),
             {.stream = stream, .features = kCatDog});
    const auto source = Open("d.arrow");
    ASSERT_TRUE(source.ok()) << source.status();
    const DatasetInfo& info = (*source)->info();
    EXPECT_EQ(info.format(), "arrow");
    EXPECT_EQ(info.samples(), 3);
    EXPECT_EQ(info.schema().fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
    EXPECT_THAT(info.schema().fields(1).class_names(),
                ElementsAre("cat", "dog"));
    EXPECT_EQ(info.train_preset(), "imagenet_train");
    EXPECT_EQ(info.eval_preset(), "imagenet_eval");
    EXPECT_EQ((*source)->read_wait(), ReadWait::kPages);
    const Samples samples = *ReadAll(**source);
    EXPECT_THAT(samples[0], ElementsAre("one", Scalar<int64_t>(1)));
    EXPECT_THAT(samples[1], ElementsAre("", Scalar<int64_t>(0)));
    EXPECT_THAT(samples[2], ElementsAre("three", Scalar<int64_t>(1)));
  }
}

TEST_F(ArrowSourceTest, EveryColumnTypeThatBecomesAField) {
  ExpectColumn(arrow::boolean(), "[true, false, true]",
               {std::string(1, 1), std::string(1, 0), std::string(1, 1)});
  ExpectColumn(arrow::uint8(), "[1, 2, 255]", {"\x01", "\x02", "\xFF"});
  ExpectColumn(arrow::int8(), "[1, -2, 3]",
               {Scalar<int32_t>(1), Scalar<int32_t>(-2), Scalar<int32_t>(3)});
  ExpectColumn(
      arrow::uint16(), "[1, 65535, 3]",
      {Scalar<int32_t>(1), Scalar<int32_t>(65535), Scalar<int32_t>(3)});
  ExpectColumn(
      arrow::uint32(), "[1, 4294967295, 3]",
      {Scalar<int64_t>(1), Scalar<int64_t>(4294967295), Scalar<int64_t>(3)});
  ExpectColumn(arrow::int64(), "[1, -5, 3]",
               {Scalar<int64_t>(1), Scalar<int64_t>(-5), Scalar<int64_t>(3)});
  ExpectColumn(arrow::float32(), "[1.5, -2, 3]",
               {Scalar(1.5f), Scalar(-2.0f), Scalar(3.0f)});
  ExpectColumn(arrow::float64(), "[1.5, -2, 3]",
               {Scalar(1.5), Scalar(-2.0), Scalar(3.0)});
  const std::string longer(40, 'l');
  const std::string texts = absl::StrCat(R"(["", "ab", ")", longer, R"("])");
  for (const auto& type :
       {arrow::binary(), arrow::utf8(), arrow::large_binary(),
        arrow::large_utf8(), arrow::binary_view(), arrow::utf8_view()}) {
    ExpectColumn(type, texts, {"", "ab", longer});
  }
  const auto two = [](float a, float b) {
    return absl::StrCat(Scalar(a), Scalar(b));
  };
  ExpectColumn(arrow::fixed_size_list(arrow::float32(), 2),
               "[[1, 2], [3, 4], [5, 6]]", {two(1, 2), two(3, 4), two(5, 6)});
  ExpectColumn(arrow::fixed_size_list(arrow::boolean(), 3),
               "[[true, false, true], [false, false, true], "
               "[true, true, false]]",
               {std::string("\1\0\1", 3), std::string("\0\0\1", 3),
                std::string("\1\1\0", 3)});
  ExpectColumn(
      arrow::fixed_size_list(arrow::fixed_size_list(arrow::float32(), 1), 2),
      "[[[1], [2]], [[3], [4]], [[5], [6]]]",
      {two(1, 2), two(3, 4), two(5, 6)});
  for (const auto& type :
       {arrow::list(arrow::float32()), arrow::large_list(arrow::float32())}) {
    ExpectColumn(type, "[[1, 2], [], [5, 6]]", {two(1, 2), "", two(5, 6)});
  }
}

TEST_F(ArrowSourceTest, ArraysOfDatasetsAreTensors) {
  const std::string features =
      R"({"info": {"features": {"x": {"shape": [2, 1], "dtype": "float32", )"
      R"("_type": "Array2D"}}}})";
  const auto two = [](float a, float b) {
    return absl::StrCat(Scalar(a), Scalar(b));
  };
  ExpectColumn(arrow::list(arrow::list(arrow::float32())),
               "[[[1], [2]], [[3], [4]], [[5], [6]]]",
               {two(1, 2), two(3, 4), two(5, 6)}, features);
  EXPECT_THAT(FieldOf("c.arrow", 0).shape(), ElementsAre(2, 1));
  // Another shape than the features say.
  WriteIpc(folder_ / "c.arrow",
           {{"x", Json(arrow::list(arrow::list(arrow::float32())),
                       "[[[1], [2]], [[3, 4]], [[5], [6]]]")}},
           {.features = features});
  const absl::Status status = Error("c.arrow");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("column 'x'"));
}

TEST_F(ArrowSourceTest, ColumnsAfterViewsAreFoundInEveryBatch) {
  // Each batch has another number of buffers of views.
  const std::string a(40, 'a');
  const std::string b(50, 'b');
  WriteIpc(folder_ / "v.arrow",
           {{"t", Json(arrow::utf8_view(),
                       absl::StrCat(R"(["x", ")", a, R"(", ")", b, R"("])"))},
            {"u", Json(arrow::binary_view(),
                       absl::StrCat(R"([")", b, R"(", "y", ")", a, R"("])"))},
            {"n", Json(arrow::int64(), "[4, 5, 6]")}},
           {.batch_rows = 1});
  const Samples samples = Read("v.arrow");
  ASSERT_THAT(samples, SizeIs(3));
  EXPECT_THAT(samples[0], ElementsAre("x", b, Scalar<int64_t>(4)));
  EXPECT_THAT(samples[1], ElementsAre(a, "y", Scalar<int64_t>(5)));
  EXPECT_THAT(samples[2], ElementsAre(b, a, Scalar<int64_t>(6)));
}

TEST_F(ArrowSourceTest, OtherColumnsAreLeftOutWithTheReason) {
  const auto classes = arrow::dictionary(arrow::int8(), arrow::utf8());
  WriteIpc(
      folder_ / "d.arrow",
      {{"kind", Json(classes, R"(["a", "b", "a"])")},
       {"when", Json(arrow::timestamp(arrow::TimeUnit::SECOND), "[1, 2, 3]")},
       {"u", Json(arrow::uint64(), "[1, 2, 3]")},
       {"none", Json(arrow::null(), "[null, null, null]")},
       {"n", Json(arrow::int64(), "[4, 5, 6]")}});
  const auto source = Open("d.arrow");
  ASSERT_TRUE(source.ok()) << source.status();
  const DatasetInfo& info = (*source)->info();
  ASSERT_EQ(info.left_out_size(), 4);
  EXPECT_THAT(info.left_out(0).reason(), HasSubstr("class numbers"));
  EXPECT_THAT(info.left_out(1).reason(), HasSubstr("int64"));
  EXPECT_THAT(*ReadAll(**source), ElementsAre(ElementsAre(Scalar<int64_t>(4)),
                                              ElementsAre(Scalar<int64_t>(5)),
                                              ElementsAre(Scalar<int64_t>(6))));
}

TEST_F(ArrowSourceTest, ANullIsAnErrorOfItsSample) {
  for (const auto codec :
       {arrow::Compression::UNCOMPRESSED, arrow::Compression::ZSTD}) {
    WriteIpc(folder_ / "d.arrow", {{"n", Json(arrow::int64(), "[4, null, 6]")}},
             {.codec = codec});
    const auto source = Open("d.arrow");
    ASSERT_TRUE(source.ok()) << source.status();
    const auto reader = *(*source)->NewReader();
    const auto read = [&](int64_t i) {
      return reader->Read(
          i, [](const EncodedSample&) { return absl::OkStatus(); });
    };
    EXPECT_TRUE(read(0).ok());
    const absl::Status status = read(1);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'n' has a null"));
    const auto detail = GetErrorDetail(status);
    EXPECT_EQ(detail.row(), 1);
    EXPECT_EQ(detail.shard(), "d.arrow");
    EXPECT_TRUE(read(2).ok());
  }
}

TEST_F(ArrowSourceTest, ImagesThatArePathsAloneAreRefused) {
  WriteIpc(folder_ / "d.arrow",
           {{"image", Json(ImageType(), R"([{"bytes": null, "path": "1.jpg"},
                                            {"bytes": null, "path": "2.jpg"}])")},
            {"label", Json(arrow::int64(), "[1, 0]")}});
  absl::Status status = Error("d.arrow");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no image bytes"));
  // One image without bytes is a damaged sample.
  WriteIpc(folder_ / "d.arrow",
           {{"image", Json(ImageType(), R"([{"bytes": "x", "path": "1.jpg"},
                                            {"bytes": null, "path": "2.jpg"}])")},
            {"label", Json(arrow::int64(), "[1, 0]")}});
  status = Error("d.arrow");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no image bytes"));
}

TEST_F(ArrowSourceTest, SeveralFilesAreShards) {
  const auto write = [this](absl::string_view name, const std::string& json,
                            const std::shared_ptr<arrow::DataType>& type =
                                arrow::int64()) {
    WriteIpc(folder_ / name, {{"n", Json(type, json)}}, {.stream = true});
  };
  std::filesystem::create_directory(folder_ / "d");
  write("d/a.arrow", "[1, 2, 3]");
  write("d/b.arrow", "[]");
  write("d/c.arrow", "[4]");
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().shards_size(), 3);
  EXPECT_EQ((*source)->info().samples(), 4);
  const Samples samples = *ReadAll(**source);
  EXPECT_EQ(samples[3][0], Scalar<int64_t>(4));
  EXPECT_THAT(Read("d/*.arrow"), SizeIs(4));
  write("d/c.arrow", "[4]", arrow::float32());
  const absl::Status status = Error("d");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("c.arrow has another schema than a.arrow"));
}

TEST_F(ArrowSourceTest, FeatherAndIpcFilesOfAFolder) {
  for (const std::string name : {"a.feather", "a.ipc"}) {
    const std::string folder = folder_ / absl::StrCat("of-", name);
    std::filesystem::create_directory(folder);
    WriteIpc(folder + "/" + name, Photographs());
    EXPECT_THAT(Read("of-" + name), SizeIs(3));
  }
}

TEST_F(ArrowSourceTest, NoRowsAreRefused) {
  for (const bool stream : {false, true}) {
    WriteIpc(folder_ / "d.arrow", {{"n", Json(arrow::int64(), "[]")}},
             {.stream = stream});
    const absl::Status status = Error("d.arrow");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has no rows"));
  }
}

TEST_F(ArrowSourceTest, TruncatedFilesAreNamed) {
  for (const bool stream : {false, true}) {
    const std::string bytes =
        IpcBytes(Photographs(), {.stream = stream, .features = kCatDog});
    for (size_t size = 0; size < bytes.size(); size += 41) {
      WriteFile(folder_ / "d.arrow", bytes.substr(0, size));
      const absl::Status status = Error("d.arrow");
      // A stream may end behind each message.
      if (stream && status.ok()) continue;
      EXPECT_FALSE(status.ok()) << size;
      EXPECT_THAT(std::string(status.message()), HasSubstr("d.arrow")) << size;
    }
  }
}

TEST_F(ArrowSourceTest, OtherFilesAreNamed) {
  WriteFile(folder_ / "d.arrow", "this is no file of Arrow, but a text of it");
  absl::Status status = Error("d.arrow");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no Arrow file"));
  WriteFile(folder_ / "d.arrow", "FEA1 and so on and on and on");
  status = Error("d.arrow");
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
  WriteFile(folder_ / "d.arrow", absl::StrCat("PAR1", std::string(300, 'x')));
  status = Error("d.arrow");
  EXPECT_THAT(std::string(status.message()), HasSubstr("write parquet:"));
}

TEST_F(ArrowSourceTest, AFileWithoutPermissionIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  WriteIpc(folder_ / "d.arrow", Photographs());
  ASSERT_EQ(chmod((folder_ / "d.arrow").c_str(), 0), 0);
  const absl::Status status = Error("d.arrow");
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

// No byte of a file is trusted: whatever a changed byte does, reading ends with
// samples or a sentence.
TEST_F(ArrowSourceTest, AnyChangedByteIsASampleOrASentence) {
  for (const bool stream : {false, true}) {
    for (const auto codec :
         {arrow::Compression::UNCOMPRESSED, arrow::Compression::LZ4_FRAME}) {
      const std::string good = IpcBytes(
          {{"t", Json(arrow::utf8_view(),
                      R"(["x", "a text that is not inline", "z"])")},
           {"l", Json(arrow::list(arrow::int32()), "[[1, 2], null, [3]]")},
           {"b", Json(arrow::binary(), R"(["one", "two", "three"])")}},
          {.stream = stream, .codec = codec});
      int read = 0;
      for (size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (at % 3 == 0 ? 0xFF : 0x11));
        WriteFile(folder_ / "d.arrow", bad);
        const auto source = Open("d.arrow");
        if (!source.ok()) continue;
        const auto reader = *(*source)->NewReader();
        for (int64_t i = 0; i < (*source)->info().samples() && i < 9; ++i) {
          (void)reader->Read(i, [&](const EncodedSample& sample) {
            for (const auto& field : sample.fields) read += field.size() < 99;
            return absl::OkStatus();
          });
        }
      }
      EXPECT_GT(read, 0);
    }
  }
}

TEST_F(ArrowSourceTest, AChangedFileIsNoticed) {
  std::filesystem::create_directory(folder_ / "d");
  WriteIpc(folder_ / "d/a.arrow", Photographs());
  WriteIpc(folder_ / "d/b.arrow", Photographs());
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE((*source)->CheckFiles().ok());
  WriteFile(folder_ / "d/b.arrow",
            absl::StrCat(ReadFile(folder_ / "d/b.arrow"), "more"));
  const absl::Status status = (*source)->CheckFiles();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("b.arrow"));
}

TEST_F(ArrowSourceTest, ATruncatedFileEndsNoProcess) {
  const std::string big(3 << 20, 'x');
  WriteIpc(
      folder_ / "d.arrow",
      {{"b", Json(arrow::binary(), absl::StrCat("[\"a\", \"", big, "\"]"))}},
      {.batch_rows = 1});
  const auto source = Open("d.arrow");
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = *(*source)->NewReader();
  ASSERT_EQ(truncate((folder_ / "d.arrow").c_str(), 100), 0);
  const absl::Status status =
      reader->Read(1, [](const EncodedSample&) { return absl::OkStatus(); });
  // Zeros are read in the place of the pages; the file is checked before they
  // are used.
  EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::IsUnavailable((*source)->CheckFiles()));
}

TEST_F(ArrowSourceTest, FingerprintsAreOfTheContent) {
  const auto fingerprint = [this](const std::string& labels,
                                  const IpcOptions& options) {
    auto columns = Photographs();
    columns[1].array = Json(arrow::int64(), labels);
    WriteIpc(folder_ / "d.arrow", columns, options);
    const auto source = Open("d.arrow");
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info().fingerprint() : "";
  };
  const std::string before = fingerprint("[1, 0, 1]", {});
  EXPECT_THAT(before, SizeIs(32));
  EXPECT_EQ(fingerprint("[1, 0, 1]", {}), before);
  EXPECT_NE(fingerprint("[1, 1, 1]", {}), before);
  EXPECT_NE(fingerprint("[1, 0, 1]", {.features = kCatDog}), before);
}

TEST_F(ArrowSourceTest, CompressedBatchesAreKeptInsideTheBudget) {
  const std::string text(100'000, 'x');
  std::string json = "[";
  for (int i = 0; i < 8; ++i)
    absl::StrAppend(&json, i ? "," : "", "\"", text, "\"");
  WriteIpc(folder_ / "d.arrow",
           {{"t", Json(arrow::binary(), json + "]")},
            {"n", Json(arrow::int64(), "[0, 1, 2, 3, 4, 5, 6, 7]")}},
           {.codec = arrow::Compression::ZSTD, .batch_rows = 2});
  ByteBudget budget(1 << 20);
  {
    const auto source =
        Open("d.arrow", {.cache_budget = &budget, .cache_bytes = 1 << 20});
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(budget.used(), 1 << 20);
    EXPECT_EQ((*source)->read_wait(), ReadWait::kRead);
    EXPECT_GE((*source)->max_concurrent_reads(), 1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const Samples samples = *ReadAll(**source);
        ASSERT_THAT(samples, SizeIs(8));
        for (int64_t i = 0; i < 8; ++i) {
          EXPECT_EQ(samples[i][0], text);
          EXPECT_EQ(samples[i][1], Scalar(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST_F(ArrowSourceTest, ABatchThatDoesNotFitIsRefusedWithTheNumbers) {
  const std::string text(3'000'000, 'x');
  WriteIpc(
      folder_ / "d.arrow",
      {{"t", Json(arrow::binary(), absl::StrCat("[\"", text, "\", \"\"]"))},
       {"n", Json(arrow::int64(), "[0, 1]")}},
      {.codec = arrow::Compression::ZSTD});
  ByteBudget budget(1 << 20);
  const auto source = Open("d.arrow", {.cache_budget = &budget,
                                       .cache_bytes = 1 << 20,
                                       .cache_advice = [](uint64_t bytes) {
                                         return absl::StrCat("give it ", bytes);
                                       }});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE((*source)->CheckFields({false, true}).ok());
  const absl::Status status = (*source)->CheckFields({true, true});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("decompressing record batch 0 takes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("columns 't' 2.9 MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("give it "));
  EXPECT_TRUE((*source)->CheckFieldsWithin({true, true}, 8 << 20).ok());
  // The other field is read all the same.
  const auto reader = *(*source)->NewReader();
  ASSERT_TRUE(reader->UseFields({false, true}).ok());
  EXPECT_TRUE(reader
                  ->Read(1,
                         [](const EncodedSample& sample) {
                           EXPECT_EQ(sample.fields[1].size(), 8);
                           return absl::OkStatus();
                         })
                  .ok());
}

TEST_F(ArrowSourceTest, TheListOfBatchesNeedsRoom) {
  std::string json = "[0";
  for (int i = 1; i < 5000; ++i) absl::StrAppend(&json, ",", i);
  WriteIpc(folder_ / "d.arrow", {{"n", Json(arrow::int64(), json + "]")}},
           {.stream = true, .batch_rows = 1});
  ByteBudget budget(100 << 10);
  const absl::Status status = Error(
      "d.arrow", {.metadata_budget = &budget,
                  .metadata_advice = [](uint64_t bytes, const DatasetInfo*) {
                    return absl::StrCat("give it ", bytes);
                  }});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("record batches"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("give it "));
  EXPECT_EQ(budget.used(), 0);
  EXPECT_THAT(Read("d.arrow"), SizeIs(5000));
}

}  // namespace
}  // namespace millrace::storage
