// Environments that PyPI's lmdb and Caffe's message in Python's protobuf wrote
// (tests/testdata/foreign_lmdb/make_lmdbs.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::string_view kData = "lmdb:tests/testdata/foreign_lmdb/";

struct Opened {
  DatasetInfo info;
  Samples samples;
};

Opened Open(absl::string_view rest) {
  const auto source = OpenRecordSource(absl::StrCat(kData, rest), {});
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return {};
  const auto samples = ReadAll(**source);
  EXPECT_TRUE(samples.ok()) << samples.status();
  return {(*source)->info(), samples.ok() ? *samples : Samples()};
}

// PNG files of 6 x 4 pixels.
void ExpectPng(const std::string& bytes) {
  EXPECT_TRUE(absl::StartsWith(bytes, "\x89PNG"));
  ASSERT_GT(bytes.size(), 24u);
  EXPECT_EQ(bytes.substr(16, 8), std::string("\0\0\0\6\0\0\0\4", 8));
}

TEST(ForeignFilesTest, CaffeWithEncodedImages) {
  const Opened opened = Open("caffe_encoded");
  EXPECT_EQ(opened.info.schema().fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(opened.info.schema().fields(1).num_classes(), 3);
  ASSERT_EQ(opened.samples.size(), 7u);
  for (int64_t i = 0; i < 7; ++i) {
    ExpectPng(opened.samples[i][0]);
    EXPECT_EQ(opened.samples[i][1], Scalar(i % 3));
  }
}

TEST(ForeignFilesTest, CaffeWithPixelsAndWithFloats) {
  const Opened pixels = Open("caffe_pixels.mdb");
  EXPECT_THAT(pixels.info.schema().fields(0).shape(), ElementsAre(3, 2, 2));
  ASSERT_EQ(pixels.samples.size(), 5u);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(pixels.samples[i][0][11], i + 11);
    EXPECT_EQ(pixels.samples[i][1], Scalar(i));
  }
  const Opened floats = Open("caffe_floats.mdb");
  EXPECT_THAT(floats.info.schema().fields(0).shape(), ElementsAre(4, 1, 1));
  ASSERT_EQ(floats.samples.size(), 3u);
  EXPECT_EQ(floats.samples[2][0], absl::StrCat(Scalar(2.0f), Scalar(0.5f),
                                               Scalar(-1.0f), Scalar(2.0f)));
}

TEST(ForeignFilesTest, ImagesByKey) {
  const Opened opened = Open("classes?label=prefix");
  EXPECT_THAT(opened.info.schema().fields(1).class_names(),
              ElementsAre("cat", "dog", "dog-house"));
  ASSERT_EQ(opened.samples.size(), 6u);
  ExpectPng(opened.samples[5][0]);
  EXPECT_EQ(opened.samples[5][1], Scalar<int64_t>(1));
}

TEST(ForeignFilesTest, ImagesWithTexts) {
  const Opened opened = Open("texts");
  ASSERT_EQ(opened.samples.size(), 3u);
  ExpectPng(opened.samples[0][0]);
  EXPECT_EQ(opened.samples[0][1], "Straße");
  EXPECT_EQ(opened.samples[1][1], "a");
  EXPECT_EQ(opened.samples[2][1], "");
}

TEST(ForeignFilesTest, NamedDatabases) {
  const Opened opened = Open("named.mdb?db=train&label_key={key}.cls");
  ASSERT_EQ(opened.samples.size(), 2u);
  ExpectPng(opened.samples[0][0]);
  EXPECT_EQ(opened.samples[0][1], Scalar<int64_t>(4));
  EXPECT_EQ(opened.samples[1][1], Scalar<int64_t>(0));
  const auto none = OpenRecordSource(absl::StrCat(kData, "named.mdb"), {});
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("named databases: train, twice"));
}

TEST(ForeignFilesTest, AnEmptyEnvironment) {
  const auto source = OpenRecordSource(absl::StrCat(kData, "empty"), {});
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("empty/data.mdb has no records"));
}

}  // namespace
}  // namespace millrace::storage
