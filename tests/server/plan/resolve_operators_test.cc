#include "server/plan/resolve_operators.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/spec_text.h"
#include "server/plan/plan_hash.h"
#include "server/plan/resolve.h"
#include "tests/server/plan/fake_operators.h"
#include "tests/server/plan/list_outputs.h"

namespace millrace::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHashA(32, 'a');
const std::string kHashB(32, 'b');

void AddField(DatasetInfo& info, const std::string& name, FieldKind kind,
              DType dtype, const std::vector<int64_t>& shape) {
  Field& field = *info.mutable_schema()->add_fields();
  field.set_name(name);
  field.set_kind(kind);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
}

class ResolveOperatorsTest : public ::testing::Test {
 protected:
  ResolveOperatorsTest() {
    photos_.set_name("photos");
    photos_.set_format("lmdb");
    photos_.set_samples(100);
    photos_.set_fingerprint("f");
    AddField(photos_, "image", FIELD_KIND_ENCODED_IMAGE, DTYPE_UNSPECIFIED, {});
    AddField(photos_, "raw", FIELD_KIND_TENSOR, DTYPE_UINT8, {8, 8, 3});
    AddField(photos_, "bands", FIELD_KIND_TENSOR, DTYPE_UINT8, {8, 8, 9});
    AddField(photos_, "weights", FIELD_KIND_TENSOR, DTYPE_INT32, {5});
    AddField(photos_, "text", FIELD_KIND_RAGGED, DTYPE_UINT8, {});
  }

  PipelineSpec Parse(const std::string& text) {
    auto spec = ParseSpecText(
        "sources { dataset: 'photos' } batch_size: 8 " + text, "test");
    EXPECT_TRUE(spec.ok()) << spec.status();
    if (!spec.ok()) return {};
    ListOutputs(photos_, *spec);
    return *spec;
  }

  absl::StatusOr<PipelineSpec> Resolve(const PipelineSpec& spec,
                                       const OperatorCatalog* operators) {
    return ResolveSpec(spec, {{"photos", &photos_}}, operators);
  }

  // Resolved twice, which must change nothing.
  PipelineSpec Resolved(const std::string& text) {
    const auto once = Resolve(Parse(text), &operators_);
    if (!once.ok()) {
      ADD_FAILURE() << once.status();
      return {};
    }
    const auto twice = Resolve(*once, &operators_);
    EXPECT_TRUE(twice.ok()) << twice.status();
    if (twice.ok()) {
      EXPECT_EQ(twice->SerializeAsString(), once->SerializeAsString());
    }
    return *once;
  }

  void Refused(const PipelineSpec& spec, const OperatorCatalog* operators,
               absl::StatusCode code, const std::vector<std::string>& says) {
    const auto resolved = Resolve(spec, operators);
    EXPECT_EQ(resolved.status().code(), code) << resolved.status();
    for (const std::string& text : says) {
      EXPECT_THAT(std::string(resolved.status().message()), HasSubstr(text));
    }
  }
  void Invalid(const std::string& text, const std::string& says) {
    Refused(Parse(text), &operators_, absl::StatusCode::kInvalidArgument,
            {says});
  }

  DatasetInfo photos_;
  const FakeOperators operators_;
};

constexpr char kPaint[] =
    "transforms { custom { name: 'paint' fields: 'raw' } }";
constexpr char kEmbed[] =
    "transforms { custom { name: 'embed' fields: 'weights' } }";
constexpr char kDecode[] =
    "transforms { decode_image { decoders { name: 'pnm' } } } "
    "transforms { center_crop { height: 4 width: 4 } }";

TEST_F(ResolveOperatorsTest, WritesOutWhoTheOperatorIs) {
  const CustomTransform paint = Resolved(kPaint).transforms(0).custom();
  EXPECT_EQ(paint.version(), "1.0");
  EXPECT_EQ(paint.library_hash(), kHashA);
  EXPECT_EQ(paint.result_dtype(), DTYPE_UNSPECIFIED);
  const CustomTransform embed = Resolved(kEmbed).transforms(0).custom();
  EXPECT_EQ(embed.result_dtype(), DTYPE_FLOAT32);
  EXPECT_THAT(embed.result_shape(), ElementsAre(16));
  const OperatorRef pnm =
      Resolved(kDecode).transforms(0).decode_image().decoders(0);
  EXPECT_EQ(pnm.version(), "1.0");
  EXPECT_EQ(pnm.library_hash(), kHashA);
}

TEST_F(ResolveOperatorsTest, TheOutputIsWhatTheOperatorMakes) {
  const PipelineSpec spec =
      Resolved(std::string(kEmbed) + " outputs { field: 'weights' }");
  EXPECT_EQ(spec.outputs(0).dtype(), DTYPE_FLOAT32);
}

TEST_F(ResolveOperatorsTest, AnotherLibraryIsAnotherPlan) {
  const FakeOperators rebuilt('b');
  for (const char* text : {kPaint, kEmbed, kDecode}) {
    const auto a = Resolve(Parse(text), &operators_);
    const auto b = Resolve(Parse(text), &rebuilt);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_NE(PlanHash(*a, "f", 1), PlanHash(*b, "f", 1));
  }
}

TEST_F(ResolveOperatorsTest, AJobIsRefusedWhereTheLibraryDiffers) {
  const FakeOperators rebuilt('b');
  const FakeOperators newer('a', "1.1");
  for (const char* text : {kPaint, kEmbed, kDecode}) {
    const PipelineSpec spec = Resolved(text);
    Refused(spec, &rebuilt, absl::StatusCode::kFailedPrecondition,
            {"transforms[0]", kHashA, kHashB, "copy one file to every server"});
    Refused(spec, &newer, absl::StatusCode::kFailedPrecondition,
            {"transforms[0]", "version 1.0", "version 1.1"});
    Refused(spec, nullptr, absl::StatusCode::kFailedPrecondition,
            {"transforms[0]", kHashA, "which is not loaded", "--operators"});
  }
}

TEST_F(ResolveOperatorsTest, UnknownNamesAreNotFound) {
  Refused(Parse("transforms { custom { name: 'other' fields: 'raw' } }"),
          &operators_, absl::StatusCode::kNotFound,
          {"transforms[0].custom", "\"other\"", "embed 1.0, paint 1.0",
           "--operators=FILE.so"});
  Refused(Parse(kPaint), nullptr, absl::StatusCode::kNotFound,
          {"\"paint\"", "loaded: none"});
  Refused(Parse("transforms { decode_image { decoders { name: 'x' } } }"),
          &operators_, absl::StatusCode::kNotFound,
          {"decoders[0]", "\"x\"", "pnm 1.0"});
}

TEST_F(ResolveOperatorsTest, OperatorsMustFitTheirFields) {
  Invalid("transforms { custom { name: 'paint' fields: 'weights' } }",
          "works on images, but field weights is not an image");
  Invalid("transforms { custom { name: 'paint' fields: 'image' } }",
          "put decode_image first");
  Invalid("transforms { custom { name: 'paint' fields: 'bands' } }",
          "too many channels");
  Invalid("transforms { custom { name: 'embed' fields: 'text' } }",
          "works on tensors of fixed size, but field text");
  Invalid(
      "transforms { decode_image {} } "
      "transforms { custom { name: 'embed' fields: 'image' } }",
      "works on tensors of fixed size, but field image");
  Invalid(std::string(kEmbed) + kEmbed, "embed: not of float32");
  Invalid(
      "transforms { decode_image { decoders { name: 'pnm' } "
      "decoders { name: 'pnm' } } }",
      "decoder pnm is named twice");
  Invalid(
      "transforms { custom { name: 'paint' fields: 'raw' "
      "result_dtype: DTYPE_UINT8 result_shape: 3 } }",
      "remove result_dtype and result_shape");
  Invalid(
      "transforms { custom { name: 'embed' fields: 'weights' "
      "result_dtype: DTYPE_FLOAT32 result_shape: 3 } }",
      "makes float32 [16], but the spec says float32 [3]");
  Invalid(
      "transforms { custom { name: 'embed' fields: 'raw' p: 0.5 } }",
      "transforms[0].custom: p is 0.5, but the operator embed makes float32 "
      "[16] of uint8 [8, 8, 3]: samples that it skips would have another type; "
      "remove p");
  EXPECT_EQ(Resolved("transforms { custom { name: 'embed' fields: 'raw' p: 0.5 "
                     "config: 'same' } }")
                .transforms(0)
                .custom()
                .result_dtype(),
            DTYPE_UINT8);
}

TEST_F(ResolveOperatorsTest, ImagesAreChangedBeforeTheyBecomeTensors) {
  const std::string embed =
      "transforms { custom { name: 'embed' fields: 'raw' } }";
  Invalid(embed + "transforms { horizontal_flip { fields: 'raw' } }",
          "comes after the operator embed");
  Invalid(embed + kPaint, "comes after the operator embed");
  // Of other fields anything may follow.
  Resolved(std::string(kEmbed) + kPaint);
}

TEST_F(ResolveOperatorsTest, OneTransformMayWorkOnSeveralFields) {
  EXPECT_EQ(Resolved("transforms { custom { name: 'embed' "
                     "fields: ['raw', 'weights'] } }")
                .transforms(0)
                .custom()
                .result_shape(0),
            16);
  Invalid(
      "transforms { custom { name: 'embed' config: 'same' "
      "fields: ['raw', 'weights'] } }",
      "write one transform for each field");
}

TEST_F(ResolveOperatorsTest, TheReaderOfADatasetIsPartOfTheSpec) {
  OperatorRef& reader = *photos_.mutable_reader();
  reader.set_name("csv");
  reader.set_version("2");
  reader.set_library_hash(kHashA);
  const PipelineSpec spec = Resolved("outputs { field: 'weights' }");
  EXPECT_EQ(spec.sources(0).reader().library_hash(), kHashA);

  reader.set_library_hash(kHashB);
  Refused(spec, &operators_, absl::StatusCode::kFailedPrecondition,
          {"sources[0].reader", "the source csv differs", kHashA, kHashB});
  reader.set_name("tsv");
  Refused(spec, &operators_, absl::StatusCode::kFailedPrecondition,
          {"with the source csv, this server with the source tsv"});
  photos_.clear_reader();
  Refused(spec, &operators_, absl::StatusCode::kFailedPrecondition,
          {"with the source csv, this server reads it as lmdb"});
}

}  // namespace
}  // namespace millrace::plan
