#include "server/plan/resolve.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "proto/spec_text.h"
#include "server/plan/content_revision.h"
#include "server/plan/presets.h"
#include "server/plan/spec_check.h"
#include "server/plan/spec_limits.h"
#include "server/plan/subset.h"

namespace millrace::plan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Field TensorField(const std::string& name, DType dtype,
                  std::vector<int64_t> shape) {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
  return field;
}

Field Label(int64_t classes) {
  Field field = TensorField("label", DTYPE_INT64, {});
  field.set_num_classes(classes);
  return field;
}

Field EncodedImage(const std::string& name = "image") {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  return field;
}

DatasetInfo Dataset(const std::string& name, std::vector<Field> fields,
                    int64_t samples = 1000) {
  DatasetInfo info;
  info.set_name(name);
  info.set_samples(samples);
  for (Field& field : fields) {
    *info.mutable_schema()->add_fields() = std::move(field);
  }
  return info;
}

class Resolve : public testing::Test {
 protected:
  Resolve() {
    Field text;
    text.set_name("text");
    text.set_kind(FIELD_KIND_RAGGED);
    text.set_dtype(DTYPE_UINT8);
    Field vector = text;
    vector.set_name("vector");
    vector.set_dtype(DTYPE_FLOAT32);
    infos_ = {
        Dataset("digits",
                {TensorField("image", DTYPE_UINT8, {28, 28, 1}), Label(10)}),
        Dataset("photos", {EncodedImage(), Label(1000)}),
        Dataset("captions", {EncodedImage(), text, Label(0)}),
        Dataset("vectors", {vector, Label(0)}),
        Dataset("table", {TensorField("x", DTYPE_FLOAT32, {16})}),
        Dataset("empty", {Label(2)}, 0),
        Dataset("rgb", {TensorField("image", DTYPE_UINT8, {64, 48, 3})}),
        Dataset("reserved", {TensorField("valid", DTYPE_UINT8, {})}),
        Dataset("segments", {EncodedImage(), EncodedImage("mask"), Label(20)}),
        Dataset("raw",
                {TensorField("image", DTYPE_UINT8, {500, 600, 3}),
                 TensorField("mask", DTYPE_UINT8, {500, 600, 1}), Label(20)}),
        Dataset("cifar",
                {TensorField("image", DTYPE_UINT8, {32, 32, 3}), Label(10)}),
        Dataset("broken", {TensorField("x", DTYPE_FLOAT32, {-1})}),
        Dataset("shards", {EncodedImage(), Label(10), text}),
    };
    infos_.back().set_format("tar");
    std::vector<Field> columns;
    for (int i = 0; i <= kMaxOutputs; ++i) {
      columns.push_back(TensorField(absl::StrCat("x", i), DTYPE_FLOAT32, {}));
    }
    infos_.push_back(Dataset("wide", columns));
    for (const DatasetInfo& info : infos_) datasets_[info.name()] = &info;
  }

  PipelineSpec Parse(const std::string& text) {
    auto spec = ParseSpecText(text, "test");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? *spec : PipelineSpec();
  }

  absl::StatusOr<PipelineSpec> Run(const std::string& text) {
    return ResolveSpec(Parse(text), datasets_);
  }

  void ExpectRefused(const std::string& text, absl::StatusCode code,
                     const std::string& message) {
    const absl::Status status = Run(text).status();
    EXPECT_EQ(status.code(), code) << text << "\n" << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
    EXPECT_EQ(GetErrorDetail(status).stage(), "plan");
  }
  void ExpectInvalid(const std::string& text, const std::string& message) {
    ExpectRefused(text, absl::StatusCode::kInvalidArgument, message);
  }
  void ExpectUnimplemented(const std::string& text,
                           const std::string& message) {
    ExpectRefused(text, absl::StatusCode::kUnimplemented, message);
  }
  void ExpectNotFound(const std::string& text, const std::string& message) {
    ExpectRefused(text, absl::StatusCode::kNotFound, message);
  }

  void CheckPreset(const std::string& preset, const std::string& dataset) {
    const auto once = Run("sources { dataset: '" + dataset +
                          "' } batch_size: 4 preset: '" + preset + "'");
    ASSERT_TRUE(once.ok()) << preset << once.status();
    EXPECT_EQ(once->preset(), "");
    EXPECT_EQ(once->outputs(0).field(), "image");
    const auto twice = ResolveSpec(*once, datasets_);
    ASSERT_TRUE(twice.ok()) << twice.status();
    EXPECT_EQ(once->SerializeAsString(), twice->SerializeAsString()) << preset;
  }

  std::vector<DatasetInfo> infos_;
  DatasetInfos datasets_;
};

constexpr char kPhotos[] = "sources { dataset: 'photos' } batch_size: 8 ";
constexpr char kDigits[] = "sources { dataset: 'digits' } batch_size: 8 ";

TEST_F(Resolve, WritesEveryDefaultOut) {
  const auto resolved = Run(std::string(kPhotos) + "preset: 'imagenet_train'");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const PipelineSpec wanted = Parse(R"(
    spec_version: 1
    sources { dataset: 'photos' weight: 1 }
    shuffle {}
    batch_size: 8
    transforms { decode_image { field: 'image' } }
    transforms { random_resized_crop {
      fields: 'image' height: 224 width: 224
      scale_min: 0.08 scale_max: 1 ratio_min: 0.75
      ratio_max: 1.3333333333333333 } }
    transforms { horizontal_flip { fields: 'image' p: 0.5 } }
    transforms { normalize { fields: 'image'
      mean: [0.485, 0.456, 0.406] stddev: [0.229, 0.224, 0.225] } }
    outputs { field: 'image' name: 'image' dtype: DTYPE_UINT8 }
    outputs { field: 'label' name: 'label' dtype: DTYPE_INT16 }
    bad_samples {})");
  EXPECT_EQ(resolved->DebugString(), wanted.DebugString());
}

TEST_F(Resolve, ResolvedSpecsStayAsTheyAre) {
  for (const std::string& text :
       {std::string(kPhotos) + "preset: 'imagenet_train'",
        std::string(kPhotos) + "preset: 'imagenet_eval' "
                               "shuffle { mode: SEQUENTIAL }",
        std::string(kPhotos) + "preset: 'mnist'",
        std::string(kDigits) + "preset: 'mnist' last_batch: LAST_BATCH_PAD",
        std::string(kDigits) + "shuffle { mode: BLOCK }",
        std::string("sources { dataset: 'digits' weight: 3 subset { from: 0.5 "
                    "to: 1 seed: 4 } } batch_size: 1 outputs { field: 'label' "
                    "name: 'y' }"),
        std::string("sources { dataset: 'table' } batch_size: 2"),
        std::string("sources { dataset: 'rgb' } batch_size: 2 "
                    "preset: 'imagenet_train'")}) {
    const auto once = Run(text);
    ASSERT_TRUE(once.ok()) << text << once.status();
    const auto twice = ResolveSpec(*once, datasets_);
    ASSERT_TRUE(twice.ok()) << twice.status();
    EXPECT_EQ(once->SerializeAsString(), twice->SerializeAsString()) << text;
  }
}

TEST_F(Resolve, PresetsFollowTheKindOfTheImage) {
  // Raw digits: nothing to decode. Encoded ones: gray, 28 x 28.
  const auto raw = Run(std::string(kDigits) + "preset: 'mnist'");
  ASSERT_TRUE(raw.ok()) << raw.status();
  ASSERT_EQ(raw->transforms_size(), 1);
  EXPECT_TRUE(raw->transforms(0).has_normalize());
  const auto encoded = Run(std::string(kPhotos) + "preset: 'mnist'");
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  ASSERT_EQ(encoded->transforms_size(), 3);
  EXPECT_EQ(encoded->transforms(0).decode_image().color(), DecodeImage::GRAY);
  // Raw photographs are cropped without decoding.
  const auto rgb =
      Run("sources { dataset: 'rgb' } batch_size: 2 preset: 'imagenet_eval'");
  ASSERT_TRUE(rgb.ok()) << rgb.status();
  EXPECT_EQ(rgb->transforms_size(), 3);
}

TEST_F(Resolve, EveryPresetResolvesOverEncodedAndRawImages) {
  EXPECT_EQ(PresetNames().size(), 10u);
  for (const std::string& name : PresetNames()) {
    CheckPreset(name, name == "segmentation_train" ? "segments" : "photos");
    // Raw images of the size that the preset is made for.
    CheckPreset(name, name.find("mnist") != std::string::npos   ? "digits"
                      : name.find("cifar") != std::string::npos ? "cifar"
                                                                : "raw");
  }
}

TEST_F(Resolve, PresetsOverMasksGiveThemTheirRole) {
  const auto resolved =
      Run("sources { dataset: 'segments' } batch_size: 2 "
          "preset: 'segmentation_train'");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  ASSERT_EQ(resolved->field_roles_size(), 1);
  EXPECT_EQ(resolved->field_roles(0).field(), "mask");
  EXPECT_EQ(resolved->field_roles(0).role(), FieldRole::MASK);
  EXPECT_EQ(resolved->field_roles(0).of(), "image");
  // A preset that moves the image alone does not fit a mask.
  ExpectInvalid(
      "sources { dataset: 'segments' } batch_size: 2 preset: 'imagenet_train' "
      "field_roles { field: 'mask' role: MASK }",
      "random_resized_crop moves field image without the mask");
  ExpectNotFound(std::string(kPhotos) + "preset: 'segmentation_train'",
                 "a field named mask");
}

TEST_F(Resolve, PresetsThatDoNotFitAreRefused) {
  ExpectInvalid(std::string(kDigits) + "preset: 'imagenet_train'",
                "DTYPE_UINT8 [28, 28, 1]");
  ExpectInvalid("sources { dataset: 'rgb' } batch_size: 1 preset: 'mnist'",
                "needs field image to be");
  ExpectNotFound("sources { dataset: 'table' } batch_size: 1 preset: 'mnist'",
                 "dataset table does not have");
  ExpectNotFound(std::string(kPhotos) + "preset: 'imagnet'",
                 "article_albumentations, cifar_eval, cifar_train,");
  ExpectInvalid(std::string(kPhotos) +
                    "preset: 'mnist' transforms { horizontal_flip {} }",
                "remove the transforms");
}

// `outputs` beside a preset choose among the fields.
TEST_F(Resolve, APresetMayHaveOutputs) {
  const std::string preset =
      "sources { dataset: 'captions' } batch_size: 2 preset: 'imagenet_train' ";
  ExpectInvalid(preset,
                "field text holds strings, bytes or lists of variable length");
  const auto resolved = Run(preset +
                            "outputs { field: 'label' } "
                            "outputs { field: 'image' layout: NHWC }");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->preset(), "");
  EXPECT_EQ(resolved->transforms_size(), 4);
  ASSERT_EQ(resolved->outputs_size(), 2);
  EXPECT_EQ(resolved->outputs(0).field(), "label");
  EXPECT_EQ(resolved->outputs(1).layout(), Output::NHWC);
  const auto twice = ResolveSpec(*resolved, datasets_);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(resolved->SerializeAsString(), twice->SerializeAsString());
}

// Photographs that nothing decodes, and strings, vanished from the batch: a
// benchmark measured labels alone.
// "outputs[256]: 257 outputs: at most 256", of a pipeline that lists none.
TEST_F(Resolve, MoreFieldsThanTensorsAreToBeListed) {
  ExpectInvalid("sources { dataset: 'wide' } batch_size: 2",
                "dataset wide has 257 fields, and a batch has at most 256 "
                "tensors. To choose some, list the outputs: outputs { field: "
                "\"x0\" }");
  EXPECT_TRUE(
      Run("sources { dataset: 'wide' } batch_size: 2 outputs { field: 'x7' }")
          .ok());
}

TEST_F(Resolve, NoFieldVanishesFromTheDefaultOutputs) {
  const std::string captions = "sources { dataset: 'captions' } batch_size: 2 ";
  const absl::Status status = Run(captions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      std::string(status.message()),
      "outputs: 2 fields of dataset captions would be missing from the batch: "
      "field image holds encoded images: add decode_image and a transform that "
      "fixes their size, such as random_resized_crop or center_crop; field "
      "text holds strings, bytes or lists of variable length, and ragged "
      "tensors are not supported yet: write lists as pa.list_(pa.uint8(), N) "
      "in pyarrow, class names as int64 class numbers "
      "(docs/formats.md#labels-in-other-columns), encoded images as a binary "
      "column named image or a struct with a binary child bytes "
      "(docs/formats.md#images-in-other-columns). To do without, list the "
      "outputs: outputs { field: \"label\" }");
  ExpectInvalid(std::string(kPhotos) + "transforms { decode_image {} }",
                "1 field of dataset photos would be missing from the batch: "
                "field image has images of different sizes: add a transform "
                "that makes the sizes equal");
  ExpectInvalid(std::string(kPhotos) +
                    "transforms { decode_image {} } "
                    "transforms { resize { short_side: 256 } }",
                "has images of different shapes after resize");
  // Lists that are all equally long were said to differ in length.
  ExpectInvalid(
      "sources { dataset: 'vectors' } batch_size: 2",
      "field vector is a list of variable length, even where all of its lists "
      "are equally long, and ragged tensors are not supported yet: a column of "
      "fixed-size lists, in pyarrow pa.list_(pa.float32(), N), is served as a "
      "tensor. To do without");
  // A mask that the preset does not know.
  ExpectInvalid(
      "sources { dataset: 'segments' } batch_size: 2 preset: 'imagenet_train'",
      "field mask holds encoded images: add decode_image { field: \"mask\" } "
      "and a transform that fixes their size");
  const absl::Status two = Run("sources { dataset: 'segments' } batch_size: 2 "
                               "preset: 'imagenet_train'")
                               .status();
  EXPECT_THAT(
      std::string(two.message()),
      EndsWith("outputs { field: \"image\" } outputs { field: \"label\" }"));
  // Each source of a mixture, under its own name.
  ExpectInvalid(
      "sources { dataset: 'photos' } sources { dataset: 'captions' } "
      "batch_size: 2 preset: 'imagenet_train'",
      "dataset captions would be missing");
  const auto listed = Run(captions + "outputs { field: 'label' }");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->outputs_size(), 1);
  ExpectUnimplemented(
      "sources { dataset: 'captions' } batch_size: 2 "
      "outputs { field: 'text' }",
      "ragged tensors are not supported yet");
  // No advice about columns of Parquet files.
  ExpectInvalid(
      "sources { dataset: 'shards' } batch_size: 2 preset: 'imagenet_train'",
      "field text has values of variable length, and ragged tensors are not "
      "supported yet. To do without, list the outputs: outputs { field: "
      "\"image\" } outputs { field: \"label\" }");
  ExpectInvalid(std::string(kPhotos) + "outputs { field: 'image' }",
                "add decode_image");
  ExpectInvalid(std::string(kPhotos) +
                    "transforms { decode_image {} } "
                    "transforms { resize { short_side: 256 } } "
                    "outputs { field: 'image' }",
                "add center_crop");
}

// The message was cut at 1,200 bytes, before the remedy at its end.
TEST_F(Resolve, TheRemedyForManyMissingFieldsIsNotCut) {
  std::vector<Field> fields = {EncodedImage(), Label(3)};
  const auto ragged = [](const std::string& name, DType dtype) {
    Field field;
    field.set_name(name);
    field.set_kind(FIELD_KIND_RAGGED);
    field.set_dtype(dtype);
    return field;
  };
  fields.push_back(ragged("caption", DTYPE_UINT8));
  fields.push_back(ragged("list", DTYPE_FLOAT32));
  fields.push_back(TensorField("flat", DTYPE_FLOAT32, {3}));
  fields.push_back(ragged("jpeg", DTYPE_UINT8));
  DatasetInfo mix = Dataset("mix", fields);
  const auto leave_out = [&mix](const std::string& name,
                                const std::string& reason) {
    LeftOutColumn* column = mix.add_left_out();
    column->set_name(name);
    column->set_reason(reason);
  };
  leave_out("big", "tensors have no type uint64: write the column as int64");
  leave_out("huge", "tensors have no type uint64: write the column as int64");
  datasets_["mix"] = &mix;
  const auto refusal = [&] {
    return std::string(
        Run("sources { dataset: 'mix' } batch_size: 2").status().message());
  };
  EXPECT_LE(refusal().size(), 1200u);
  EXPECT_THAT(refusal(), StartsWith("outputs: 6 fields of dataset mix would"));
  EXPECT_THAT(refusal(), HasSubstr("fields caption, jpeg, each: holds"));
  EXPECT_THAT(refusal(), HasSubstr("columns big, huge, each: tensors have no"));
  const std::string remedy =
      ". To do without, list the outputs: outputs { field: \"label\" } outputs "
      "{ field: \"flat\" }";
  EXPECT_THAT(refusal(), EndsWith(remedy));
  for (int i = 0; i < 40; ++i) {
    leave_out(absl::StrCat("column", i), absl::StrCat("it is odd, ", i));
  }
  EXPECT_LE(refusal().size(), 1200u);
  EXPECT_THAT(refusal(), HasSubstr("; and without a reason here: "));
  EXPECT_THAT(refusal(), EndsWith(remedy));
  // More other fields than a message names.
  for (int i = 0; i < 60; ++i) {
    *mix.mutable_schema()->add_fields() =
        TensorField(absl::StrCat("measurement", i), DTYPE_FLOAT32, {});
  }
  EXPECT_LE(refusal().size(), 1200u);
  EXPECT_THAT(refusal(), HasSubstr(" of the 62 other fields), list the "
                                   "outputs: outputs { field: \"label\" }"));
  EXPECT_THAT(refusal(), EndsWith("\" }"));
}

// `--outputs=...,sample_index,valid` was advised, and refused: every batch has
// tensors of these names.
TEST_F(Resolve, FieldsWithTheNamesOfEveryBatchAreNoRemedy) {
  DatasetInfo table =
      Dataset("table", {TensorField("x", DTYPE_FLOAT32, {}),
                        TensorField("sample_index", DTYPE_INT64, {}),
                        TensorField("valid", DTYPE_UINT8, {})});
  // "column : it has no name".
  table.add_left_out()->set_reason("it has no name");
  datasets_["table"] = &table;
  const std::string spec = "sources { dataset: 'table' } batch_size: 2 ";
  const std::string refusal(Run(spec).status().message());
  EXPECT_THAT(refusal, HasSubstr("batch: column '': it has no name. To do "
                                 "without, and without sample_index, valid ("));
  EXPECT_THAT(refusal,
              EndsWith("), list the outputs: outputs { field: \"x\" }"));
  EXPECT_TRUE(Run(spec + "outputs { field: 'x' }").ok());
  // No other field is left.
  table.mutable_schema()->mutable_fields()->DeleteSubrange(0, 1);
  const std::string other =
      "outputs { field: \"sample_index\" name: \"NAME\" }";
  EXPECT_THAT(std::string(Run(spec).status().message()),
              EndsWith("has a tensor of that name: " + other));
  EXPECT_TRUE(Run(spec + other).ok());
}

// A label of strings was advised to become an image, and then to be left out.
TEST_F(Resolve, ALabelOfStringsIsToBecomeClassNumbers) {
  Field label;
  label.set_name("label");
  label.set_kind(FIELD_KIND_RAGGED);
  label.set_dtype(DTYPE_UINT8);
  const DatasetInfo names =
      Dataset("names", {TensorField("image", DTYPE_UINT8, {4, 4, 3}), label});
  datasets_["names"] = &names;
  const std::string spec = "sources { dataset: 'names' } batch_size: 2 ";
  EXPECT_EQ(
      std::string(Run(spec).status().message()),
      "outputs: 1 field of dataset names would be missing from the batch: "
      "field label holds strings or bytes, and a label is a class number: "
      "write the column as int64 class numbers "
      "(docs/formats.md#labels-in-other-columns). To do without (the batch "
      "then has no label), list the outputs: outputs { field: \"image\" }");
  ExpectUnimplemented(spec + "outputs { field: 'label' }",
                      "write the column as int64 class numbers");
  // Nor is it a candidate for the images.
  const DatasetInfo alone = Dataset("alone", {label});
  datasets_["alone"] = &alone;
  const std::string missing(
      Run("sources { dataset: 'alone' } batch_size: 2 preset: "
          "'imagenet_train'")
          .status()
          .message());
  EXPECT_THAT(missing, Not(HasSubstr("rename the column")));
}

TEST_F(Resolve, UnknownNamesAreNotFound) {
  ExpectNotFound("sources { dataset: 'photo' } batch_size: 2",
                 "this server has: broken, captions, cifar, digits");
  ExpectNotFound(std::string(kPhotos) + "outputs { field: 'img' }",
                 "its fields are image, label");
  ExpectNotFound(
      std::string(kPhotos) + "transforms { decode_image { field: 'mask' } }",
      "has no field \"mask\"");
  LeftOutColumn* column = infos_[0].add_left_out();
  column->set_name("count");
  column->set_reason("its type uint64 cannot become a field");
  ExpectNotFound(std::string(kDigits) + "outputs { field: 'count' }",
                 "column \"count\" of dataset digits is left out: its type "
                 "uint64 cannot become a field; its fields are image, label");
  ExpectInvalid(
      std::string(kDigits),
      "1 field of dataset digits would be missing from the batch: column "
      "count: its type uint64 cannot become a field. To do without, list the "
      "outputs: outputs { field: \"image\" } outputs { field: \"label\" }");
}

TEST_F(Resolve, AbsurdSizesAreRefused) {
  ExpectInvalid("sources { dataset: 'digits' }", "batch_size is 0");
  ExpectInvalid("sources { dataset: 'digits' } batch_size: 1048577",
                "1 .. 1048576");
  ExpectInvalid("batch_size: 1", "names no dataset");
  ExpectInvalid("sources { } batch_size: 1", "has no dataset");
  ExpectInvalid("sources { dataset: 'empty' } batch_size: 1",
                "contains no samples");
  ExpectInvalid("sources { dataset: 'broken' } batch_size: 1",
                "no usable type and shape");
  ExpectInvalid("sources { dataset: 'reserved' } batch_size: 1",
                "cannot have the name valid");
  const std::string photos =
      std::string(kPhotos) + "transforms { decode_image {} } transforms { ";
  ExpectInvalid(photos + "center_crop { height: 0 width: 5 } }",
                "transforms[1].center_crop.height: height is 0");
  ExpectInvalid(photos + "center_crop { height: 5 width: 16385 } }",
                "1 .. 16384");
  ExpectInvalid(photos + "random_resized_crop { width: 5 } }", "height is 0");
  ExpectInvalid(photos + "resize { } }", "short_side is 0");
  ExpectInvalid(photos + "resize { short_side: 3 height: 2 width: 2 } }",
                "short_side and height, width cannot be used together");
  ExpectInvalid(photos + "resize { height: 2 } }", "width is 0");
}

TEST_F(Resolve, RangesAreChecked) {
  const std::string photos =
      std::string(kPhotos) + "transforms { decode_image {} } transforms { ";
  const std::string crop = photos + "random_resized_crop { height: 4 width: 4 ";
  ExpectInvalid(crop + "scale_min: 0.5 scale_max: 0.2 } }", "scale_max");
  ExpectInvalid(crop + "scale_max: 0.2 } }", "scale_min");
  ExpectInvalid(crop + "scale_min: -1 scale_max: 1 } }", "scale_min");
  ExpectInvalid(crop + "scale_min: 0.1 scale_max: 1.5 } }", "scale");
  ExpectInvalid(crop + "ratio_min: 2 ratio_max: 1 } }", "ratio_max");
  ExpectInvalid(crop + "ratio_min: 0.001 ratio_max: 1 } }", "ratio_min");
  ExpectInvalid(crop + "scale_min: nan scale_max: 1 } }",
                "not a finite number");
  ExpectInvalid(photos + "horizontal_flip { p: 1.5 } }", "it must be 0 .. 1");
  ExpectInvalid(photos + "horizontal_flip { p: inf } }", "not a finite number");
  ExpectInvalid(
      "sources { dataset: 'digits' subset { from: 0.5 to: 0.2 } } "
      "batch_size: 1",
      "sources[0].subset");
  ExpectInvalid(
      "sources { dataset: 'digits' subset { seed: 3 } } batch_size: 1",
      "the subset has no bounds");
  ExpectInvalid(
      "sources { dataset: 'digits' subset { from: 1 } } batch_size: 1",
      "the subset is from 1 to 1");
  ExpectInvalid("sources { dataset: 'digits' weight: -1 } batch_size: 1",
                "negative");
  ExpectInvalid("sources { dataset: 'digits' weight: 0 } batch_size: 1",
                "sources[0].weight: weight is 0: it must be above 0, or left "
                "out for 1");
  ExpectInvalid(
      "sources { dataset: 'digits' subset { from: 0.5 to: 0 } } batch_size: 1",
      "the subset is from 0.5 to 0");
  ExpectInvalid("sources { dataset: 'digits' subset { to: 0 } } batch_size: 1",
                "the subset is from 0 to 0");
  ExpectInvalid(std::string(kDigits) + "shuffle { block_size: 4 }",
                "has an effect only with mode: BLOCK");
  ExpectInvalid(std::string(kDigits) + "shuffle { mode: BLOCK block_size: 0 }",
                "shuffle.block_size: block_size is 0: it must be 1 .. "
                "1073741824, or left out for 64");
  ExpectInvalid(
      std::string(kDigits) + "shuffle { mode: BLOCK window_blocks: 0 }",
      "window_blocks is 0");
}

TEST_F(Resolve, ASubsetWithoutAnEndGoesToTheLastSample) {
  const auto open =
      Run("sources { dataset: 'digits' subset { from: 0.5 } } batch_size: 1");
  ASSERT_TRUE(open.ok()) << open.status();
  const auto closed = Run(
      "sources { dataset: 'digits' subset { from: 0.5 to: 1 } } batch_size: 1");
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_EQ(open->SerializeAsString(), closed->SerializeAsString());
  const auto cut = SubsetCut::Create(
      Parse("sources { dataset: 'd' subset { from: 0.9 } }").sources(0), 1000);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->size(), 100u);
}

// Statistics of pixels of 0 .. 255 are a common mistake, and training on what
// they make of the pixels does not fail.
TEST_F(Resolve, NormalizeRefusesTheScaleOf255) {
  const std::string start = std::string(kDigits) + "transforms { normalize { ";
  ExpectInvalid(start + "mean: 123.7 stddev: 0.2 } }",
                "mean 123.7 is above 1: normalize divides pixels by 255 first, "
                "so mean and stddev are on the scale of 0 .. 1; divide "
                "statistics of 0 .. 255 by 255, here 0.4851");
  ExpectInvalid(start + "mean: 0.5 stddev: 58.4 } }",
                "stddev 58.4 is above 5: normalize divides");
  ExpectInvalid(start + "mean: -123.7 stddev: 58.4 } }",
                "mean -123.7 is below -1: normalize divides pixels by 255 "
                "first, so mean and stddev are on the scale of 0 .. 1 and the "
                "mean is subtracted: write it without the sign; divide "
                "statistics of 0 .. 255 by 255, here 0.4851");
  EXPECT_TRUE(Run(start + "mean: 1 stddev: 2 } }").ok());
  EXPECT_TRUE(Run(start + "mean: -1 stddev: 2 } }").ok());
}

TEST_F(Resolve, NormalizeMustFitTheChannels) {
  const std::string start = std::string(kDigits) + "transforms { normalize { ";
  ExpectInvalid(start + "} }", "has no mean");
  ExpectInvalid(start + "mean: [1, 2] stddev: 1 } }", "2 means and 1 stddev:");
  ExpectInvalid(start + "mean: 0 stddev: 0 } }", "above 0");
  ExpectInvalid(start + "mean: [0, 0] stddev: [1, 1] } }",
                "has 1 channel, but normalize.mean has 2 values");
  ExpectInvalid(
      "sources { dataset: 'table' } batch_size: 1 transforms { "
      "normalize { fields: 'x' mean: 0 stddev: 1 } }",
      "works on uint8");
  ExpectInvalid(start +
                    "mean: 0 stddev: 1 } } transforms { horizontal_flip "
                    "{} }",
                "nothing may come after normalize");
}

TEST_F(Resolve, TransformsMustFitTheField) {
  ExpectInvalid(std::string(kDigits) + "transforms { decode_image {} }",
                "contains raw pixels");
  ExpectInvalid(std::string(kPhotos) +
                    "transforms { center_crop { height: 3 width: 3 } }",
                "put decode_image first");
  ExpectInvalid(std::string(kPhotos) +
                    "transforms { decode_image {} } "
                    "transforms { decode_image {} }",
                "may occur once");
  ExpectInvalid(
      "sources { dataset: 'table' } batch_size: 1 transforms { "
      "horizontal_flip { fields: 'x' } }",
      "is not an image");
}

TEST_F(Resolve, WhatIsNotBuiltIsRefused) {
  ExpectUnimplemented(
      std::string(kDigits) + "outputs { field: 'image' dtype: DTYPE_FLOAT32 }",
      "conversion to float32 on the wire is not supported yet");
  ExpectUnimplemented(std::string(kDigits) + "spec_version: 2",
                      "knows version 1");
  ExpectInvalid(std::string(kDigits) + "transforms { }",
                "the transform is empty");
}

// Blocks of neighbours need cuts that leave them together.
TEST_F(Resolve, BlockOrderOverASubsetNeedsRuns) {
  const auto spec = [](const std::string& subset, const std::string& block) {
    return "sources { dataset: 'digits' subset { to: 0.5 " + subset +
           " } } batch_size: 1 shuffle { mode: BLOCK " + block + " }";
  };
  ExpectInvalid(spec("", ""), "BLOCK order reads blocks of 64 neighbours");
  ExpectInvalid(spec("unit: 1", ""), "subset of single samples");
  ExpectInvalid(spec("unit: 64", "block_size: 10"), "unit: 10 (or a multiple)");
  EXPECT_TRUE(Run(spec("unit: 10", "block_size: 10")).ok());
  EXPECT_TRUE(Run(spec("unit: 10", "block_size: 5")).ok());
  ExpectInvalid(
      "sources { dataset: 'digits' subset { to: 0.5 unit: 2000000000 } } "
      "batch_size: 1",
      "unit 2000000000; the maximum is");
  // One sample is no run.
  const std::string cut =
      "sources { dataset: 'digits' subset { to: 0.5 unit: 1 } } batch_size: 1";
  const auto resolved = Run(cut);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->sources(0).subset().unit(), 0u);
}

TEST_F(Resolve, OutputsHaveNamesOfTheirOwn) {
  ExpectInvalid(std::string(kDigits) +
                    "outputs { field: 'image' name: 'a' } "
                    "outputs { field: 'label' name: 'a' }",
                "two outputs have the name a");
  ExpectInvalid(
      std::string(kDigits) + "outputs { field: 'label' name: 'sample_index' }",
      "cannot have the name sample_index");
}

TEST_F(Resolve, ANewerProgramsSpecIsRefusedByItsFieldNumbers) {
  PipelineSpec spec = Parse(kDigits);
  spec.GetReflection()->MutableUnknownFields(&spec)->AddVarint(77, 1);
  absl::Status status = ResolveSpec(spec, datasets_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("field number 77"));

  spec = Parse(std::string(kPhotos) + "transforms { decode_image {} }");
  DecodeImage& decode = *spec.mutable_transforms(0)->mutable_decode_image();
  decode.GetReflection()->MutableUnknownFields(&decode)->AddVarint(9, 1);
  status = ResolveSpec(spec, datasets_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("transforms[0].decode_image: field number 9"));

  spec = Parse(kDigits);
  spec.set_last_batch(static_cast<LastBatch>(9));
  status = ResolveSpec(spec, datasets_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("value 9 of LastBatch"));
}

TEST_F(Resolve, HugeNamesDoNotReachTheMessage) {
  PipelineSpec spec = Parse(kDigits);
  spec.set_preset(std::string(100'000, 'x'));
  const absl::Status status = ResolveSpec(spec, datasets_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LT(status.message().size(), 200u);
}

TEST_F(Resolve, AnEvaluationPresetDoesNotChangeTheOrder) {
  const auto resolved = Run(std::string(kPhotos) + "preset: 'imagenet_eval'");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->shuffle().mode(), Shuffle::GLOBAL);
  EXPECT_EQ(resolved->last_batch(), LAST_BATCH_DROP);
}

}  // namespace
}  // namespace millrace::plan
