// Arrays of a program as a dataset: its samples, and that it is the dataset
// that the same content packed into files is.

#include "server/storage/memory/array_source.h"

#include <string>

#include "absl/status/status.h"
#include "common/byte_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/storage/open.h"
#include "tests/server/storage/memory/array_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 100;

DatasetInfo Info() {
  DatasetInfo info;
  info.set_samples(kRows);
  AddTensor("image", DTYPE_UINT8, {4, 5, 3}, info.mutable_schema());
  AddTensor("weight", DTYPE_FLOAT32, {2}, info.mutable_schema());
  AddTensor("label", DTYPE_INT64, {}, info.mutable_schema());
  Field& label = *info.mutable_schema()->mutable_fields(2);
  label.set_num_classes(3);
  for (const char* name : {"ant", "bee", "cat"}) label.add_class_names(name);
  return info;
}

Samples Rows() {
  Samples samples;
  for (int64_t i = 0; i < kRows; ++i) {
    std::string image(60, static_cast<char>(i));
    image[0] = 'x';
    samples.push_back({image,
                       Scalar<float>(0.5f * i) + Scalar<float>(-1.0f * i),
                       Scalar<int64_t>(i % 3)});
  }
  return samples;
}

std::string FileOf(const DatasetInfo& info, const Samples& samples) {
  std::vector<std::string> arrays(info.schema().fields_size());
  for (const auto& sample : samples) {
    for (size_t i = 0; i < arrays.size(); ++i) arrays[i] += sample[i];
  }
  return ArrayFile(info.schema().SerializeAsString(), samples.size(), arrays);
}

absl::StatusOr<std::unique_ptr<RecordSource>> Open(
    const std::string& bytes, const OpenSourceOptions& options = {}) {
  // Closed before the source is used.
  const UniqueFd file = SealedFile(bytes);
  return OpenArrays(file.get(), options);
}

TEST(ArraySourceTest, SamplesAreTheRows) {
  const auto source = Open(FileOf(Info(), Rows()));
  ASSERT_TRUE(source.ok()) << source.status();
  const DatasetInfo& info = (*source)->info();
  EXPECT_EQ(info.format(), "memory");
  EXPECT_EQ(info.samples(), kRows);
  EXPECT_EQ(info.schema().SerializeAsString(),
            Info().schema().SerializeAsString());
  ASSERT_EQ(info.shards_size(), 1);
  EXPECT_EQ(info.shards(0).samples(), kRows);
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, Rows());
  // In any order, and as many readers as one likes.
  const auto one = (*source)->NewReader();
  const auto other = (*source)->NewReader();
  ASSERT_TRUE(one.ok() && other.ok());
  for (const int64_t row : {kRows - 1, int64_t{0}, int64_t{50}}) {
    for (const auto& reader : {one->get(), other->get()}) {
      EXPECT_TRUE(reader
                      ->Read(row,
                             [&](const EncodedSample& sample) {
                               EXPECT_EQ(sample.row, row);
                               EXPECT_EQ(sample.fields[1],
                                         BytesOf(Rows()[row][1]));
                               return absl::OkStatus();
                             })
                      .ok());
    }
  }
}

TEST(ArraySourceTest, RowsThatDoNotExist) {
  const auto source = Open(FileOf(Info(), Rows()));
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  ASSERT_TRUE(reader.ok());
  for (const int64_t row : {int64_t{-1}, kRows, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ((*reader)
                  ->Read(row,
                         [](const EncodedSample&) {
                           ADD_FAILURE();
                           return absl::OkStatus();
                         })
                  .code(),
              absl::StatusCode::kOutOfRange);
  }
}

TEST(ArraySourceTest, ItIsTheDatasetThatIsPackedIntoFiles) {
  const auto source = Open(FileOf(Info(), Rows()));
  ASSERT_TRUE(source.ok()) << source.status();
  const TempFolder folder;
  const std::string uri = "lmdb:" + folder / "packed.lmdb";
  const auto packed = Pack(uri, Info(), Rows());
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto opened = OpenRecordSource(uri, {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*source)->info().fingerprint(), (*opened)->info().fingerprint());
  EXPECT_EQ((*source)->info().shards(0).content_sum(),
            (*opened)->info().shards(0).content_sum());
  Samples others = Rows();
  std::swap(others[3], others[4]);
  const auto other = Open(FileOf(Info(), others));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->info().fingerprint(), (*source)->info().fingerprint());
}

TEST(ArraySourceTest, ClassesOutOfRangeAreRefusedWithTheirRow) {
  Samples samples = Rows();
  samples[17][2] = Scalar<int64_t>(3);
  const absl::Status refused = Open(FileOf(Info(), samples)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("row 17"), HasSubstr("'label' is class 3")));
}

TEST(ArraySourceTest, FilesThatAreNotSealedOrNoArraysAreRefused) {
  const std::string bytes = FileOf(Info(), Rows());
  const UniqueFd open = SealedFile(bytes, F_SEAL_SHRINK);
  EXPECT_THAT(std::string(OpenArrays(open.get(), {}).status().message()),
              HasSubstr("is not sealed"));
  EXPECT_THAT(std::string(Open("something else").status().message()),
              HasSubstr("MRARRAYS"));
}

TEST(ArraySourceTest, PageTablesTakeThePartOfTheBudget) {
  ByteBudget budget(50);
  OpenSourceOptions options = {.metadata_budget = &budget};
  options.metadata_advice = [](uint64_t, const DatasetInfo*) { return "buy memory"; };
  const std::string large =
      FileOf(Info(), Samples(1000, Rows()[0]));  // 19 pages
  const absl::Status refused = Open(large, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("page tables"), HasSubstr("buy memory")));
  EXPECT_EQ(budget.used(), 0u);
  {
    const auto source = Open(FileOf(Info(), Rows()), options);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_GT(budget.used(), 0u);
    EXPECT_EQ(budget.used(), (*source)->metadata_bytes());
  }
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace millrace::storage
