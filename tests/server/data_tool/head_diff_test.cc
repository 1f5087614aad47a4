// `millrace-data head` and `millrace-data diff` over datasets of several
// formats.

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::data_tool {
namespace {

using storage::Scalar;
using storage::WriteFile;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void AddField(absl::string_view name, FieldKind kind, DType dtype,
              std::vector<int64_t> shape, DatasetInfo* info) {
  Field* const field = info->mutable_schema()->add_fields();
  field->set_name(std::string(name));
  field->set_kind(kind);
  field->set_dtype(dtype);
  for (const int64_t extent : shape) field->add_shape(extent);
}

// image, label (cat, dog), text, tokens, box, ratio.
DatasetInfo MixedDataset(int64_t samples) {
  DatasetInfo info;
  info.set_samples(samples);
  AddField("image", FIELD_KIND_ENCODED_IMAGE, DTYPE_UNSPECIFIED, {}, &info);
  AddField("label", FIELD_KIND_TENSOR, DTYPE_INT64, {}, &info);
  info.mutable_schema()->mutable_fields(1)->set_num_classes(2);
  info.mutable_schema()->mutable_fields(1)->add_class_names("cat");
  info.mutable_schema()->mutable_fields(1)->add_class_names("dog");
  AddField("text", FIELD_KIND_RAGGED, DTYPE_UINT8, {}, &info);
  AddField("tokens", FIELD_KIND_RAGGED, DTYPE_INT32, {}, &info);
  AddField("box", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {3, 4}, &info);
  AddField("ratio", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {}, &info);
  return info;
}

storage::Samples MixedSamples(int64_t samples) {
  storage::Samples made;
  for (int64_t i = 0; i < samples; ++i) {
    std::string tokens, box;
    for (int32_t t = 0; t < i + 1; ++t) tokens += Scalar<int32_t>(t - 1);
    for (int n = 0; n < 12; ++n) box += Scalar<float>(n / 4.0f);
    made.push_back({Jpeg(static_cast<uint64_t>(i)), Scalar<int64_t>(i % 2),
                    i == 0 ? "a \"small\"\ncat" : std::string(59, 'x') + "äöü",
                    tokens, box, Scalar<float>(0.5f)});
  }
  return made;
}

class HeadDiffTest : public ::testing::Test {
 protected:
  std::string Uri(absl::string_view scheme, absl::string_view name) {
    return absl::StrCat(scheme, ":", folder_ / name);
  }
  std::string Make(absl::string_view name, const DatasetInfo& info,
                   const storage::Samples& samples,
                   const storage::DatasetWriter::Options& options = {}) {
    const std::string uri = Uri("lmdb", name);
    const auto packed = storage::Pack(uri, info, samples, options);
    EXPECT_TRUE(packed.ok()) << packed.status();
    return uri;
  }
  Result Diff(const std::string& a, const std::string& b,
              std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"diff", a, b,
                                     "--cache_dir=" + folder_ / "cache"};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  storage::TempFolder folder_;
};

TEST_F(HeadDiffTest, HeadShowsEveryKindOfField) {
  const std::string uri =
      Make("d", MixedDataset(9), MixedSamples(9), {.shards = 3});
  const Result head = Call({"head", "--samples=4", uri});
  EXPECT_EQ(head.code, program::kExitOk) << head.err;
  EXPECT_EQ(head.err, "");
  const std::string bytes = absl::StrCat(Jpeg(0).size());
  EXPECT_THAT(
      head.out,
      AllOf(HasSubstr("sample 0: shard part-00000-of-00003.lmdb, row 0\n"
                      "  image: encoded_image, " +
                      bytes +
                      " bytes, JPEG 16 x 8\n"
                      "  label: tensor int64 [], 8 bytes, 0 (cat)\n"
                      "  text: ragged uint8, 13 bytes, \"a \"small\"\\ncat\"\n"
                      "  tokens: ragged int32, 4 bytes, 1 element: -1\n"
                      "  box: tensor float32 [3, 4], 48 bytes: 0, 0.25, 0.5, "
                      "0.75, 1, 1.25, 1.5, 1.75, ...\n"
                      "  ratio: tensor float32 [], 4 bytes, 0.5\n"),
            HasSubstr("sample 3: shard part-00001-of-00003.lmdb, row 0\n"),
            HasSubstr("8 bytes, 1 (dog)\n"),
            // 59 bytes, and no half of a character behind them.
            HasSubstr(std::string(59, 'x') + "\" ...\n"),
            Not(HasSubstr("sample 4"))));
  const Result rest = Call({"head", uri, "--first=7"});
  EXPECT_THAT(rest.out, AllOf(HasSubstr("sample 7: "), HasSubstr("sample 8: "),
                              Not(HasSubstr("sample 6"))));
}

TEST_F(HeadDiffTest, HeadPrintsJson) {
  const std::string uri = Make("d", MixedDataset(2), MixedSamples(2));
  const Result head = Call({"head", "--json", "--samples=1", uri});
  EXPECT_EQ(head.code, program::kExitOk) << head.err;
  google::protobuf::Struct json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(head.out, &json).ok())
      << head.out;
  EXPECT_EQ(json.fields().at("samples").number_value(), 2);
  const auto& list = json.fields().at("head").list_value();
  ASSERT_EQ(list.values_size(), 1);
  const auto& sample = list.values(0).struct_value().fields();
  EXPECT_EQ(sample.at("index").number_value(), 0);
  EXPECT_EQ(sample.at("shard").string_value(), "d");
  EXPECT_EQ(sample.at("row").number_value(), 0);
  const auto field = [&](int i) {
    return sample.at("fields").list_value().values(i).struct_value().fields();
  };
  EXPECT_EQ(field(0).at("format").string_value(), "JPEG");
  EXPECT_EQ(field(0).at("width").number_value(), 16);
  EXPECT_EQ(field(0).at("height").number_value(), 8);
  EXPECT_EQ(field(1).at("value").number_value(), 0);
  EXPECT_EQ(field(1).at("class_name").string_value(), "cat");
  EXPECT_EQ(field(2).at("text").string_value(), "a \"small\"\ncat");
  EXPECT_EQ(field(3).at("values").list_value().values(0).number_value(), -1);
  EXPECT_EQ(field(4).at("elements").number_value(), 12);
}

TEST_F(HeadDiffTest, HeadNamesDamageAndGoesOn) {
  storage::Samples samples = MixedSamples(3);
  samples[1][0] = "no image";
  const std::string uri = Make("d", MixedDataset(3), samples);
  std::string bytes = storage::ReadFile(folder_ / "d");
  // The first bytes of a sample are its label.
  const size_t at = bytes.find(Scalar<int64_t>(0) + samples[2][4]);
  ASSERT_NE(at, std::string::npos);
  std::string label = bytes;
  label.replace(bytes.rfind(Scalar<int64_t>(0) + samples[2][4]), 1, "\x07");
  WriteFile(folder_ / "d", label);
  const Result head = Call({"head", uri});
  EXPECT_EQ(head.code, program::kExitFailed);
  EXPECT_THAT(head.out, AllOf(HasSubstr("8 bytes, damaged: "),
                              HasSubstr("\n  damaged: "), HasSubstr("7")));
  EXPECT_THAT(head.err, HasSubstr("1 of the 3 samples cannot be read"));
}

TEST_F(HeadDiffTest, HeadRefusesWrongNumbers) {
  const std::string uri = Make("d", MixedDataset(3), MixedSamples(3));
  for (const auto& [flag, sentence] :
       {std::pair("--samples=0", "--samples is 0; it must be at least 1"),
        std::pair("--first=-1", "--first is -1; it must be at least 0"),
        std::pair("--first=3", "has 3 samples; the first one is 0")}) {
    const Result head = Call({"head", uri, flag});
    EXPECT_EQ(head.code, program::kExitUsage) << head.err;
    EXPECT_THAT(head.err, HasSubstr(sentence));
  }
}

TEST_F(HeadDiffTest, EqualContentOfFormatsIsEqual) {
  std::string tar;
  for (int i = 0; i < 5; ++i) {
    tar += storage::TarMemberBytes(absl::StrCat("k", i, ".cls"),
                                   absl::StrCat(i % 3));
    tar += storage::TarMemberBytes(absl::StrCat("k", i, ".jpg"), Jpeg(i));
  }
  WriteFile(folder_ / "0.tar", tar + storage::TarEnd());
  const std::string uri = Uri("tar", "0.tar");
  for (const std::string& scheme : storage::Schemes()) {
    const std::string output = Uri(scheme, scheme);
    ASSERT_EQ(Call({"pack", "--input=" + uri, "--output=" + output,
                    "--cache_dir=" + folder_ / "cache", "--shards=2"})
                  .code,
              program::kExitOk);
    const Result equal = Diff(uri, output);
    EXPECT_EQ(equal.code, program::kExitOk) << equal.err << equal.out;
    EXPECT_THAT(equal.out, HasSubstr("equal: 5 samples ("));
    // The fingerprint that the packed dataset has.
    const std::string fingerprint =
        equal.out.substr(equal.out.find("content ") + 8, 32);
    EXPECT_THAT(Call({"inspect", output}).out, HasSubstr(fingerprint));
  }
}

// The index files of MDS and LitData do not tell the number of classes, which
// diff took for a difference from datasets that know it.
TEST_F(HeadDiffTest, ClassesThatAreNotKnownAreCounted) {
  const Result equal = Diff("mds:tests/testdata/mds/photos",
                            "litdata:tests/testdata/litdata/photos");
  EXPECT_EQ(equal.code, program::kExitOk) << equal.err << equal.out;
  const Result off =
      Call({"diff", "mds:tests/testdata/mds/photos",
            "litdata:tests/testdata/litdata/photos", "--cache_dir=off"});
  EXPECT_THAT(off.err, HasSubstr("the number of classes of mds:"));
}

TEST_F(HeadDiffTest, DifferentValuesAreNamed) {
  storage::Samples samples = MixedSamples(6);
  const std::string a = Make("a", MixedDataset(6), samples);
  samples[1][1] = Scalar<int64_t>(0);
  samples[2][2] += "more";
  samples[4][4][7] ^= 1;
  const std::string b = Make("b", MixedDataset(6), samples);
  const Result different = Diff(a, b);
  EXPECT_EQ(different.code, program::kExitFailed);
  EXPECT_EQ(different.err, "");
  EXPECT_EQ(different.out,
            "sample 1, field label: 1 (dog) in A, 0 (cat) in B\n"
            "sample 2, field text: 65 bytes in A, 69 in B\n"
            "sample 4, field box: 48 bytes in both, different at byte 7\n"
            "different: 3 differences; 3 of 6 compared samples differ\n");
  const Result two = Diff(a, b, {"--max_differences=2"});
  EXPECT_EQ(two.code, program::kExitFailed);
  EXPECT_THAT(two.out, AllOf(HasSubstr("field text"), Not(HasSubstr("box")),
                             HasSubstr("3 differences, of which 2 are listed "
                                       "(--max_differences); 3 of 6")));
}

TEST_F(HeadDiffTest, DifferentSchemasAreNamed) {
  const storage::Samples samples = MixedSamples(4);
  const std::string a = Make("a", MixedDataset(4), samples);
  DatasetInfo info = MixedDataset(3);
  Schema& schema = *info.mutable_schema();
  schema.mutable_fields(1)->set_class_names(1, "wolf");
  schema.mutable_fields(2)->set_name("caption");
  schema.mutable_fields(4)->set_shape(0, 4);
  schema.mutable_fields(4)->set_shape(1, 3);
  const std::string b = Make("b", info, {samples[0], samples[1], samples[2]});
  const Result different = Diff(a, b);
  EXPECT_EQ(different.code, program::kExitFailed);
  EXPECT_EQ(different.out,
            "field label: class 1 is dog in A, wolf in B\n"
            "field text: ragged uint8 in A, missing in B\n"
            "field box: tensor float32 [3, 4] in A, tensor float32 [4, 3] in "
            "B\n"
            "field caption: missing in A, ragged uint8 in B\n"
            "A has 4 samples, B has 3\n"
            "different: 5 differences; 0 of 3 compared samples differ\n");
}

TEST_F(HeadDiffTest, TheOrderOfFieldsCounts) {
  const storage::Samples samples = MixedSamples(2);
  const std::string a = Make("a", MixedDataset(2), samples);
  DatasetInfo info = MixedDataset(2);
  info.mutable_schema()->mutable_fields()->SwapElements(2, 3);
  storage::Samples swapped = samples;
  for (auto& sample : swapped) std::swap(sample[2], sample[3]);
  const Result different = Diff(a, Make("b", info, swapped));
  EXPECT_EQ(different.code, program::kExitFailed);
  EXPECT_THAT(different.out,
              HasSubstr("the fields are in another order: image, label, text, "
                        "tokens, box, ratio in A, image, label, tokens, text"));
  EXPECT_THAT(different.out, HasSubstr("0 of 2 compared samples differ"));
}

TEST_F(HeadDiffTest, DamagedSamplesDiffer) {
  const storage::Samples samples = storage::ImageSamples(5);
  const std::string a = Make("a", storage::ImageDataset(5), samples);
  const std::string b = Make("b", storage::ImageDataset(5), samples);
  std::string bytes = storage::ReadFile(folder_ / "b");
  const size_t at = bytes.find(samples[3][0]);
  ASSERT_NE(at, std::string::npos);
  bytes[at - 12] = 77;
  WriteFile(folder_ / "b", bytes);
  const Result different = Diff(a, b);
  EXPECT_EQ(different.code, program::kExitFailed);
  EXPECT_THAT(different.out,
              AllOf(HasSubstr("sample 3: cannot be read in B: "),
                    HasSubstr("1 of 5 compared samples differ")));
}

TEST_F(HeadDiffTest, WrongUseOfDiffIsExitCodeTwo) {
  const std::string a = Make("a", MixedDataset(2), MixedSamples(2));
  const auto expect_usage = [](const std::vector<std::string>& args,
                               const std::string& sentence) {
    const Result refused = Call(args);
    EXPECT_EQ(refused.code, program::kExitUsage) << refused.out;
    EXPECT_THAT(refused.err, HasSubstr(sentence));
  };
  expect_usage({"diff"}, "A B is missing");
  expect_usage({"diff", a}, "the second dataset is missing");
  expect_usage({"diff", a, a, a}, "unexpected argument");
  expect_usage({"diff", a, a, "--max_differences=-1"}, "--max_differences");
  expect_usage({"diff", a, "zip:/x"}, "zip");
  // A value behind its flag is no dataset.
  EXPECT_EQ(Call({"diff", "--max_differences", "3", a, a}).code,
            program::kExitOk);
  EXPECT_EQ(Call({"diff", a, a, "--max_differences", "3"}).code,
            program::kExitOk);
  const Result gone = Call({"diff", a, Uri("lmdb", "gone")});
  EXPECT_EQ(gone.code, program::kExitFailed);
  EXPECT_THAT(gone.err, HasSubstr("gone"));
}

}  // namespace
}  // namespace millrace::data_tool
