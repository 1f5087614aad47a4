#include "server/data_tool/parallel_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/data_tool/input_hashes.h"

namespace millrace::data_tool {
namespace {

using ::testing::ElementsAre;

// Samples "0", "1", ... of one field.
class Numbers final : public SampleReader {
 public:
  explicit Numbers(int64_t samples) { description_.set_samples(samples); }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    if (next_ == description_.samples()) {
      return absl::InternalError("read behind the end");
    }
    text_ = absl::StrCat(next_++);
    sample->fields.clear();
    sample->fields.emplace_back(reinterpret_cast<const uint8_t*>(text_.data()),
                                text_.size());
    sample->origin = absl::StrCat("f", text_);
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override { return {"odd"}; }

 private:
  DatasetInfo description_;
  int64_t next_ = 0;
  std::string text_;
};

std::string Text(const SampleReader::Sample& sample) {
  return std::string(reinterpret_cast<const char*>(sample.fields[0].data()),
                     sample.fields[0].size());
}

TEST(ParallelReaderTest, SamplesKeepTheirOrder) {
  constexpr int kSamples = 100;
  ParallelReader reader(std::make_unique<Numbers>(kSamples),
                        {.threads = 4, .name = "mr-test"},
                        [](ParallelReader::Work& work) {
                          // Later samples are done earlier.
                          usleep(500 * (work.fields[0].back() % 2));
                          work.note = work.origin;
                          work.fields[0] += "!";
                        });
  SampleReader::Sample sample;
  for (int i = 0; i < kSamples; ++i) {
    ASSERT_TRUE(reader.Next(&sample).ok());
    EXPECT_EQ(Text(sample), absl::StrCat(i, "!"));
    EXPECT_EQ(sample.origin, absl::StrCat("f", i));
    EXPECT_EQ(std::any_cast<std::string>(reader.given().note), sample.origin);
  }
  EXPECT_THAT(reader.Warnings(), ElementsAre("odd"));
}

TEST(ParallelReaderTest, AnErrorComesInItsPlace) {
  ParallelReader reader(std::make_unique<Numbers>(9),
                        {.threads = 3, .name = "mr-test"},
                        [](ParallelReader::Work& work) {
                          if (work.fields[0] == "5") {
                            work.status = absl::DataLossError("bad");
                          }
                        });
  SampleReader::Sample sample;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(reader.Next(&sample).ok()) << i;
  EXPECT_TRUE(absl::IsDataLoss(reader.Next(&sample)));
}

// Readers over readers once read behind the end when the first samples were
// left out.
TEST(ParallelReaderTest, TheFirstSamplesCanBeLeftOut) {
  constexpr int kSamples = 20, kKept = 13;
  InputHashes all;
  auto whole = all.Over(std::make_unique<Numbers>(kSamples));
  std::vector<storage::Hash128> expected;
  ASSERT_TRUE(all.Skip(kSamples,
                       [&](storage::Hash128 hash) {
                         expected.push_back(hash);
                         return absl::OkStatus();
                       })
                  .ok());

  InputHashes hashes;
  std::unique_ptr<SampleReader> reader =
      hashes.Over(std::make_unique<Numbers>(kSamples));
  for (int i = 0; i < 3; ++i) {
    reader = std::make_unique<ParallelReader>(
        std::move(reader),
        ParallelReader::Options{.threads = 2, .name = "mr-test"},
        [](ParallelReader::Work& work) { work.fields[0] += "!"; });
  }
  EXPECT_EQ(reader->description().samples(), kSamples);
  int64_t seen = 0;
  ASSERT_TRUE(hashes
                  .Skip(kKept,
                        [&](storage::Hash128 hash) {
                          EXPECT_EQ(hash, expected[seen++]);
                          return absl::OkStatus();
                        })
                  .ok());
  EXPECT_EQ(seen, kKept);
  EXPECT_EQ(reader->description().samples(), kSamples - kKept);
  SampleReader::Sample sample;
  for (int i = kKept; i < kSamples; ++i) {
    ASSERT_TRUE(reader->Next(&sample).ok()) << i;
    EXPECT_EQ(Text(sample), absl::StrCat(i, "!!!"));
    EXPECT_EQ(hashes.Take(), expected[i]);
  }
}

TEST(ParallelReaderTest, ManySamplesMayBeOnTheirWayWhenTheReaderEnds) {
  ParallelReader reader(std::make_unique<Numbers>(50),
                        {.threads = 3, .name = "mr-test"},
                        [](ParallelReader::Work&) { usleep(1000); });
  SampleReader::Sample sample;
  ASSERT_TRUE(reader.Next(&sample).ok());
}

}  // namespace
}  // namespace millrace::data_tool
