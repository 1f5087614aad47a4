#include "server/data_tool/seekable_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/operators/operators.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::data_tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Images and their labels; its memory of a sample ends with the next.
class FakeReader final : public SampleReader {
 public:
  explicit FakeReader(std::vector<std::string> images)
      : images_(std::move(images)) {
    description_.set_samples(static_cast<int64_t>(images_.size()));
    Field* label = description_.mutable_schema()->add_fields();
    label->set_name("label");
    label->set_kind(FIELD_KIND_TENSOR);
    Field* image = description_.mutable_schema()->add_fields();
    image->set_name("image");
    image->set_kind(FIELD_KIND_ENCODED_IMAGE);
  }
  const DatasetInfo& description() const override { return description_; }
  absl::Status Next(Sample* sample) override {
    if (next_ == fail_at) return absl::DataLossError("the disk is broken");
    image_ = std::move(images_[next_]);
    label_ = static_cast<uint8_t>(next_);
    sample->fields = {
        {&label_, 1},
        {reinterpret_cast<const uint8_t*>(image_.data()), image_.size()}};
    sample->origin = absl::StrCat("image ", next_++);
    return absl::OkStatus();
  }
  std::vector<std::string> Warnings() const override { return {"one bad"}; }

  size_t fail_at = -1;

 private:
  DatasetInfo description_;
  std::vector<std::string> images_;
  std::string image_;
  uint8_t label_ = 0;
  size_t next_ = 0;
};

std::vector<std::string> Images(int count) {
  std::vector<std::string> images;
  for (int i = 0; i < count; ++i) {
    JpegKind kind;
    kind.width = 16 + i * 7 % 90;
    kind.height = 120 - i % 100;
    kind.progressive = i % 2;
    const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
    images.emplace_back(jpeg.begin(), jpeg.end());
  }
  return images;
}

TEST(SeekableReader, GivesTheSameSamplesInOrderWithAnyNumberOfThreads) {
  constexpr int kImages = 60;
  std::vector<std::string> first;
  for (uint32_t threads : {1, 2, 5}) {
    auto reader = MakeSeekable(std::make_unique<FakeReader>(Images(kImages)),
                               threads, nullptr);
    EXPECT_EQ(reader->description().samples(), kImages);
    std::vector<std::string> images;
    SampleReader::Sample sample;
    for (int i = 0; i < kImages; ++i) {
      ASSERT_TRUE(reader->Next(&sample).ok());
      ASSERT_EQ(sample.fields.size(), 2);
      EXPECT_EQ(sample.fields[0][0], i);
      EXPECT_EQ(sample.origin, absl::StrCat("image ", i));
      images.emplace_back(sample.fields[1].begin(), sample.fields[1].end());
    }
    EXPECT_THAT(reader->Summary(), HasSubstr("made 60 of 60 images seekable"));
    EXPECT_THAT(reader->Warnings(), ElementsAre("one bad"));
    EXPECT_NE(images, Images(kImages));
    if (first.empty()) first = images;
    EXPECT_EQ(images, first);
  }
}

TEST(SeekableReader, NamesWhatIsDamagedAndCountsWhatStays) {
  std::vector<std::string> images = Images(20);
  images[3].resize(images[3].size() / 2);
  images[5] = "no image";
  auto reader = MakeSeekable(std::make_unique<FakeReader>(images), 2, nullptr);
  SampleReader::Sample sample;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(reader->Next(&sample).ok());
    EXPECT_EQ(images[i] ==
                  std::string(sample.fields[1].begin(), sample.fields[1].end()),
              i == 3 || i == 5);
  }
  EXPECT_THAT(
      reader->Summary(),
      ::testing::AllOf(HasSubstr("made 18 of 20"),
                       HasSubstr("stored unchanged: 1 not a JPEG, 1 damaged")));
  EXPECT_THAT(
      reader->Warnings(),
      ElementsAre("one bad",
                  HasSubstr("image 3 is stored unchanged: it is damaged (")));
}

TEST(SeekableReader, WhatADecoderOfOperatorsReadsStaysAsItIs) {
  const auto operators =
      operators::Operators::Load({"tests/testing/operators/jpeg_reader.so"});
  ASSERT_TRUE(operators.ok()) << operators.status();
  std::vector<std::string> images = Images(6);
  images[2] = "no image";
  auto reader =
      MakeSeekable(std::make_unique<FakeReader>(images), 2, operators->get());
  SampleReader::Sample sample;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(reader->Next(&sample).ok());
    EXPECT_EQ(images[i],
              std::string(sample.fields[1].begin(), sample.fields[1].end()));
  }
  EXPECT_THAT(reader->Summary(),
              ::testing::AllOf(HasSubstr("made 0 of 6"),
                               HasSubstr("5 for a decoder of --operators"),
                               HasSubstr("1 not a JPEG")));
}

TEST(SeekableReader, MayBeLeftInTheMiddleAndReportsErrors) {
  auto fake = std::make_unique<FakeReader>(Images(40));
  fake->fail_at = 30;
  auto reader = MakeSeekable(std::move(fake), 3, nullptr);
  SampleReader::Sample sample;
  absl::Status status;
  int good = 0;
  while ((status = reader->Next(&sample)).ok()) ++good;
  EXPECT_EQ(status.message(), "the disk is broken");
  EXPECT_LE(good, 30);
  EXPECT_GT(good, 20);
  reader.reset();  // with work that nobody has asked for
}

}  // namespace
}  // namespace millrace::data_tool
