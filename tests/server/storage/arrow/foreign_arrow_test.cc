// Files that pyarrow, pandas, polars and Hugging Face datasets wrote
// (tests/testdata/arrow/make_arrow.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/storage/dataset_files.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::string_view kData = "arrow:tests/testdata/arrow/";
constexpr int64_t kRows = 7;

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
  return {(*source)->info(), samples.value_or(Samples())};
}

TEST(ForeignArrowTest, PandasAndPyarrow) {
  for (const std::string name :
       {"pandas.feather", "zstd.feather", "stream.arrow"}) {
    const Opened opened = Open(name);
    ASSERT_THAT(opened.samples, SizeIs(kRows)) << name;
    for (int32_t i = 0; i < kRows; ++i) {
      EXPECT_THAT(opened.samples[i],
                  ElementsAre(absl::StrCat("row ", i), Scalar(i),
                              Scalar(static_cast<float>(i) / 2)))
          << name;
    }
  }
}

TEST(ForeignArrowTest, Polars) {
  for (const std::string name :
       {"polars.arrow", "polars_lz4.arrow", "polars_stream.arrow"}) {
    const Opened opened = Open(name);
    ASSERT_THAT(opened.samples, SizeIs(kRows)) << name;
    for (int64_t i = 0; i < kRows; ++i) {
      std::string list;
      for (int64_t k = 0; k < i; ++k) list += Scalar(i);
      EXPECT_THAT(
          opened.samples[i],
          ElementsAre(i == kRows - 1 ? "a text that is not inline"
                                     : absl::StrCat("row ", i),
                      Scalar(i), Scalar(static_cast<double>(i) / 2), list))
          << name;
    }
  }
}

TEST(ForeignArrowTest, SavedDataset) {
  const Opened opened = Open("saved");
  const Schema& schema = opened.info.schema();
  ASSERT_EQ(schema.fields_size(), 6);
  EXPECT_EQ(schema.fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_THAT(schema.fields(1).class_names(), ElementsAre("cat", "dog", "eel"));
  EXPECT_EQ(schema.fields(2).kind(), FIELD_KIND_RAGGED);
  EXPECT_THAT(schema.fields(3).shape(), ElementsAre(4));
  EXPECT_EQ(schema.fields(4).kind(), FIELD_KIND_RAGGED);
  EXPECT_THAT(schema.fields(5).shape(), ElementsAre(2, 3));
  EXPECT_EQ(opened.info.shards_size(), 2);
  ASSERT_THAT(opened.samples, SizeIs(kRows));
  for (int64_t i = 0; i < kRows; ++i) {
    const std::vector<std::string>& sample = opened.samples[i];
    // PNG files of 6 x 4 pixels.
    ASSERT_TRUE(absl::StartsWith(sample[0], "\x89PNG"));
    EXPECT_EQ(sample[0].substr(16, 8), std::string("\0\0\0\6\0\0\0\4", 8));
    EXPECT_EQ(sample[1], Scalar(i % 3));
    EXPECT_EQ(sample[2], absl::StrCat("row ", i));
    EXPECT_EQ(sample[3].substr(0, 8),
              absl::StrCat(Scalar(static_cast<float>(i)), Scalar(1.0f)));
    EXPECT_EQ(sample[4].size(), i * 8);
    std::string grid;
    for (int32_t k = 0; k < 6; ++k) {
      grid += Scalar(k == 0 ? static_cast<int32_t>(i) : k);
    }
    EXPECT_EQ(sample[5], grid);
  }
  const auto files = FindDatasetFiles(absl::StrCat(kData, "saved"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->files, SizeIs(2));
}

TEST(ForeignArrowTest, OneFileOfASavedDatasetHasItsClassNames) {
  const Opened opened = Open("saved/data-00001-of-00002.arrow");
  EXPECT_THAT(opened.info.schema().fields(1).class_names(),
              ElementsAre("cat", "dog", "eel"));
}

TEST(ForeignArrowTest, SplitsAreOpenedOneByOne) {
  const auto source = OpenRecordSource(absl::StrCat(kData, "splits"), {});
  EXPECT_TRUE(absl::IsInvalidArgument(source.status())) << source.status();
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("arrow:tests/testdata/arrow/splits/train"));
  EXPECT_THAT(Open("splits/test").samples, SizeIs(3));
}

}  // namespace
}  // namespace millrace::storage
