// What becomes of a field: the order of its transforms, the roles of masks and
// boxes, and its type and shape on the wire and on the device.

#include "server/plan/field_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/spec_text.h"
#include "server/plan/resolve.h"
#include "server/plan/spec_check.h"
#include "server/plan/value_range.h"
#include "tests/server/plan/list_outputs.h"

namespace millrace::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Field Make(const std::string& name, DType dtype, std::vector<int64_t> shape,
           int64_t classes = 0) {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
  field.set_num_classes(classes);
  return field;
}

Field Encoded(const std::string& name) {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  return field;
}

// "photos": encoded image and mask, boxes, label; "tiny": raw ones.
class Trace : public testing::Test {
 protected:
  Trace() {
    photos_.set_name("photos");
    photos_.set_samples(100);
    for (const Field& field :
         {Encoded("image"), Encoded("mask"),
          Make("boxes", DTYPE_FLOAT32, {5, 4}),
          Make("label", DTYPE_INT64, {}, 1000),
          Make("weight", DTYPE_FLOAT32, {}), Make("id", DTYPE_INT64, {})}) {
      *photos_.mutable_schema()->add_fields() = field;
    }
    tiny_.set_name("tiny");
    tiny_.set_samples(100);
    for (const Field& field : {Make("image", DTYPE_UINT8, {32, 32, 3}),
                               Make("mask", DTYPE_UINT8, {32, 32, 1}),
                               Make("small", DTYPE_UINT8, {16, 32, 1}),
                               Make("tall", DTYPE_UINT8, {31, 18, 3}),
                               Make("boxes", DTYPE_INT64, {5, 4}),
                               Make("label", DTYPE_INT64, {}, 10)}) {
      *tiny_.mutable_schema()->add_fields() = field;
    }
    datasets_ = {{"photos", &photos_}, {"tiny", &tiny_}};
  }

  absl::StatusOr<PipelineSpec> Resolved(const std::string& dataset,
                                        const std::string& text) {
    auto spec = ParseSpecText(
        "sources { dataset: '" + dataset + "' } batch_size: 8 " + text, "test");
    if (!spec.ok()) {
      ADD_FAILURE() << spec.status();
      return spec.status();
    }
    ListOutputs(*datasets_[dataset], *spec);
    auto resolved = ResolveSpec(*spec, datasets_);
    if (resolved.ok()) {
      const auto again = ResolveSpec(*resolved, datasets_);
      EXPECT_TRUE(again.ok()) << again.status();
      if (again.ok()) {
        EXPECT_EQ(again->SerializeAsString(), resolved->SerializeAsString());
      }
    }
    return resolved;
  }

  FieldTrace Of(const std::string& field, const std::string& dataset,
                const std::string& text) {
    const auto spec = Resolved(dataset, text);
    if (!spec.ok()) {
      ADD_FAILURE() << text << "\n" << spec.status();
      return {};
    }
    for (const Field& f : datasets_[dataset]->schema().fields()) {
      if (f.name() != field) continue;
      auto trace = TraceField(*spec, f);
      EXPECT_TRUE(trace.ok()) << trace.status();
      if (trace.ok()) return *trace;
    }
    return {};
  }

  void ExpectInvalid(const std::string& dataset, const std::string& text,
                     const std::string& message) {
    const absl::Status status = Resolved(dataset, text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text << "\n"
                                                                 << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }

  DatasetInfo photos_, tiny_;
  DatasetInfos datasets_;
};

constexpr char kDecode[] = "transforms { decode_image {} } ";
constexpr char kCrop[] =
    "transforms { random_resized_crop { height: 20 width: 30 } } ";
constexpr char kNormalize[] =
    "transforms { normalize { mean: [0, 0, 0] stddev: [1, 1, 1] } } ";
constexpr char kMask[] = "field_roles { field: 'mask' role: MASK } ";
constexpr char kBoxes[] = "field_roles { field: 'boxes' role: BOXES_XYXY } ";

TEST_F(Trace, SaysWhatRunsWhere) {
  const std::string text =
      std::string(kDecode) + kCrop +
      "transforms { trivial_augment_wide {} } "
      "transforms { random_erasing { p: 0.1 } } "
      "transforms { mix_up { alpha: 0.2 } } transforms { cut_mix {} } " +
      kNormalize + "transforms { to_dtype { dtype: DTYPE_BFLOAT16 } } ";
  const FieldTrace image = Of("image", "photos", text);
  EXPECT_THAT(image.image_places, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(image.batch_places, ElementsAre(4, 5));
  EXPECT_FALSE(image.mixed_label);
  EXPECT_EQ(image.normalize_place, 6);
  EXPECT_EQ(image.to_dtype_place, 7);
  EXPECT_EQ(image.dtype, DTYPE_UINT8);
  EXPECT_THAT(*image.shape, ElementsAre(20, 30, 3));
  EXPECT_EQ(image.device_dtype, DTYPE_BFLOAT16);
  EXPECT_THAT(*image.device_shape, ElementsAre(3, 20, 30));

  const FieldTrace label = Of("label", "photos", text);
  EXPECT_THAT(label.image_places, ElementsAre());
  EXPECT_THAT(label.batch_places, ElementsAre(4, 5));
  EXPECT_TRUE(label.mixed_label);
  EXPECT_EQ(label.dtype, DTYPE_FLOAT32);
  EXPECT_THAT(*label.shape, ElementsAre(1000));

  const FieldTrace weight = Of("weight", "photos", text);
  EXPECT_THAT(weight.batch_places, ElementsAre());
  EXPECT_EQ(weight.device_dtype, DTYPE_FLOAT32);
}

TEST_F(Trace, TheServerSendsWhatItConverts) {
  const std::string normalize =
      "transforms { normalize { mean: [0, 0, 0] stddev: [1, 1, 1] "
      "placement: PLACEMENT_SERVER } } ";
  const FieldTrace both =
      Of("image", "tiny",
         normalize +
             "transforms { to_dtype { dtype: DTYPE_FLOAT16 placement: "
             "PLACEMENT_SERVER } } ");
  EXPECT_EQ(both.dtype, DTYPE_FLOAT16);
  EXPECT_EQ(both.device_dtype, DTYPE_FLOAT16);
  const FieldTrace one =
      Of("image", "tiny",
         normalize + "transforms { to_dtype { dtype: DTYPE_FLOAT16 } } ");
  EXPECT_EQ(one.dtype, DTYPE_FLOAT32);
  EXPECT_EQ(one.device_dtype, DTYPE_FLOAT16);
  ExpectInvalid("tiny",
                std::string(kNormalize) +
                    "transforms { to_dtype { dtype: DTYPE_FLOAT16 placement: "
                    "PLACEMENT_SERVER } } ",
                "give both transforms the same placement");
}

TEST_F(Trace, LayoutsAreOfImages) {
  EXPECT_THAT(*Of("image", "tiny", "").device_shape, ElementsAre(32, 32, 3));
  EXPECT_THAT(*Of("image", "tiny", "outputs { field: 'image' layout: NCHW }")
                   .device_shape,
              ElementsAre(3, 32, 32));
  EXPECT_THAT(
      *Of("image", "tiny",
          std::string(kNormalize) + "outputs { field: 'image' layout: NHWC }")
           .device_shape,
      ElementsAre(32, 32, 3));
  ExpectInvalid("tiny", "outputs { field: 'label' layout: NCHW }",
                "outputs[0]: field label is not an image");
}

TEST_F(Trace, ConversionsKeepEveryValue) {
  const auto to = [](const std::string& field, const std::string& rest) {
    return "transforms { to_dtype { fields: '" + field + "' " + rest + " } } ";
  };
  EXPECT_EQ(Of("mask", "tiny", to("mask", "dtype: DTYPE_INT64")).device_dtype,
            DTYPE_INT64);
  EXPECT_EQ(Of("mask", "tiny", to("mask", "dtype: DTYPE_INT64")).dtype,
            DTYPE_UINT8);
  EXPECT_EQ(Of("image", "tiny", to("image", "dtype: DTYPE_FLOAT32 scale: true"))
                .device_dtype,
            DTYPE_FLOAT32);
  EXPECT_EQ(Of("label", "tiny", to("label", "dtype: DTYPE_INT8")).device_dtype,
            DTYPE_INT8);
  ExpectInvalid("photos", to("label", "dtype: DTYPE_INT8"),
                "holds values of -100 .. 999, which int8 does not hold");
  ExpectInvalid("photos", to("label", "dtype: DTYPE_UINT16"), "does not hold");
  ExpectInvalid("photos", to("id", "dtype: DTYPE_INT32"),
                "pack it in the type that you want");
  ExpectInvalid("photos", to("weight", "dtype: DTYPE_INT32"), "fractions");
  ExpectInvalid("tiny", to("label", "dtype: DTYPE_FLOAT32 scale: true"),
                "scale works only on uint8");
  ExpectInvalid("tiny",
                kNormalize + to("image", "dtype: DTYPE_FLOAT16 scale: true"),
                "after normalize, which has divided by 255");
  ExpectInvalid("photos", to("image", "dtype: DTYPE_FLOAT16"),
                "put decode_image first");
}

// The trainer's arithmetic reads bytes: no client computes it of anything else.
TEST_F(Trace, WhatTheTrainerScalesTravelsAsUint8) {
  const std::string wire = "outputs { field: 'image' dtype: DTYPE_INT16 }";
  ExpectInvalid(
      "tiny", kNormalize + wire,
      "outputs[0].dtype: field image is sent as int16, but normalize in the "
      "trainer reads uint8: remove dtype; the trainer gets float32");
  ExpectInvalid(
      "tiny",
      "transforms { to_dtype { dtype: DTYPE_FLOAT16 scale: true } } " + wire,
      "to_dtype with scale in the trainer reads uint8");
  // What is only cast may be sent so.
  EXPECT_EQ(Of("image", "tiny", wire).dtype, DTYPE_INT16);
}

TEST_F(Trace, TheWireMayCarryASmallerType) {
  const FieldTrace label =
      Of("label", "tiny", "outputs { field: 'label' dtype: DTYPE_INT8 }");
  EXPECT_EQ(label.dtype, DTYPE_INT8);
  EXPECT_EQ(label.device_dtype, DTYPE_INT64);
  EXPECT_EQ(Resolved("photos", "outputs { field: 'label' dtype: DTYPE_INT8 }")
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  // int16 at least: 255 often stands for "ignore", whatever the classes.
  EXPECT_EQ(LabelWireType(2), DTYPE_INT16);
  EXPECT_EQ(LabelWireType(32768), DTYPE_INT16);
  EXPECT_EQ(LabelWireType(32769), DTYPE_INT32);
  EXPECT_EQ(LabelWireType(int64_t{1} << 40), DTYPE_INT64);
  EXPECT_TRUE(Holds(DTYPE_FLOAT32, {0, 1 << 24}));
  EXPECT_FALSE(Holds(DTYPE_FLOAT32, {0, (1 << 24) + 1}));
  EXPECT_TRUE(Holds(DTYPE_BFLOAT16, *ValuesOf(DTYPE_UINT8)));
  EXPECT_FALSE(Holds(DTYPE_FLOAT16, *ValuesOf(DTYPE_INT16)));
}

TEST_F(Trace, SizesAreFollowed) {
  EXPECT_THAT(
      *Of("image", "tiny", "transforms { pad { padding: [1, 2, 3, 4] } }")
           .shape,
      ElementsAre(38, 36, 3));
  EXPECT_THAT(
      *Of("image", "tiny", "transforms { resize { short_side: 7 } }").shape,
      ElementsAre(7, 7, 3));
  EXPECT_THAT(*Of("small", "tiny",
                  "transforms { resize { fields: 'small' short_side: 7 } }")
                   .shape,
              ElementsAre(7, 14, 1));
  EXPECT_THAT(*Of("tall", "tiny",
                  "transforms { resize { fields: 'tall' short_side: 5 } } "
                  "transforms { pad { fields: 'tall' padding: [0, 1] } }")
                   .shape,
              ElementsAre(10, 5, 3));
  EXPECT_FALSE(Of("image", "photos",
                  std::string(kDecode) +
                      "transforms { resize { short_side: 7 } } "
                      "outputs { field: 'label' }")
                   .shape);
  EXPECT_THAT(*Of("image", "tiny",
                  "transforms { random_crop { height: 32 width: 30 padding: 4 "
                  "} }")
                   .shape,
              ElementsAre(32, 30, 3));
  ExpectInvalid("tiny", "transforms { random_crop { height: 33 width: 32 } }",
                "smaller than the crop window of 33 x 32");
  EXPECT_THAT(*Of("image", "tiny",
                  "transforms { random_crop { height: 33 width: 32 "
                  "pad_if_needed: true } }")
                   .shape,
              ElementsAre(33, 32, 3));
  ExpectInvalid("tiny", "transforms { pad { padding: 16000 } }",
                "each side is at most");
  ExpectInvalid("tiny",
                "transforms { gaussian_blur { fields: 'small' kernel_size: 33 "
                "} }",
                "cannot be mirrored");
  EXPECT_FALSE(Of("image", "photos",
                  std::string(kDecode) + "transforms { pad { padding: 3 } } "
                                         "outputs { field: 'label' }")
                   .shape);
}

// The window was found to be above the image at the first sample, and each
// sample was bad, because the size after a resize of the short side was not
// computed.
TEST_F(Trace, AWindowAboveTheImageAfterAResizeOfTheShortSideIsRefused) {
  const std::string crop =
      "transforms { resize { fields: 'tall' short_side: 9 } } "
      "transforms { random_crop { fields: 'tall' ";
  ExpectInvalid("tiny", crop + "height: 16 width: 9 } }",
                "field tall has images of 15 x 9 (with padding), smaller than "
                "the crop window of 16 x 9");
  ExpectInvalid("tiny", crop + "height: 15 width: 10 } }",
                "smaller than the crop window of 15 x 10");
  EXPECT_THAT(*Of("tall", "tiny", crop + "height: 15 width: 9 } }").shape,
              ElementsAre(15, 9, 3));
  EXPECT_THAT(
      *Of("tall", "tiny", crop + "height: 17 width: 9 padding: [0, 1] } }")
           .shape,
      ElementsAre(17, 9, 3));
  ExpectInvalid("tiny",
                "transforms { resize { fields: 'small' short_side: 3 } } "
                "transforms { gaussian_blur { fields: 'small' kernel_size: 9 "
                "} }",
                "cannot be mirrored");
}

// Each sample was bad, although the shorter side of every image is known.
TEST_F(Trace, AWindowAboveTheShortSideOfEveryImageIsRefused) {
  const std::string resize =
      std::string(kDecode) + "transforms { resize { short_side: 224 } } ";
  const auto crop = [](const std::string& text) {
    return "transforms { random_crop { " + text + " } } ";
  };
  ExpectInvalid("photos", resize + crop("height: 256 width: 225"),
                "field image has images whose shorter side is 224 pixels (with "
                "padding), smaller than the crop window of 256 x 225: add "
                "padding, or pad_if_needed: true");
  ExpectInvalid("photos",
                resize + crop("height: 256 width: 256 padding: [3, 3, 12, 12]"),
                "shorter side is 239 pixels");
  ExpectInvalid("photos",
                resize + "transforms { pad { padding: 8 } } " +
                    crop("height: 241 width: 241"),
                "shorter side is 240 pixels");
  for (const std::string& fits :
       {crop("height: 224 width: 256"),  // of an upright or a wide image
        crop("height: 256 width: 256 padding: 16"),
        crop("height: 256 width: 256 padding: [40, 0]"),
        crop("height: 256 width: 256 pad_if_needed: true"),
        "transforms { center_crop { height: 300 width: 300 } } " +
            crop("height: 256 width: 256")}) {
    EXPECT_TRUE(
        Of("image", "photos", resize + fits + "outputs { field: 'image' }")
            .shape)
        << fits;
  }
}

TEST_F(Trace, ValuesAreOneOrOneAChannel) {
  for (const char* kind :
       {"pad { fields: 'mask' padding: 1 fill: [1, 2, 3] }",
        "random_crop { fields: 'mask' height: 3 width: 3 padding: 1 "
        "fill: [1, 2, 3] }",
        "random_rotation { fields: 'mask' degrees_max: 3 fill: [1, 2, 3] }",
        "random_affine { fields: 'mask' degrees_max: 3 fill: [1, 2, 3] }",
        "random_erasing { fields: 'mask' value: [1, 2, 3] }",
        "trivial_augment_wide { fields: 'mask' fill: [1, 2, 3] }",
        "rand_augment { fields: 'mask' fill: [1, 2, 3] }"}) {
    ExpectInvalid("tiny", std::string("transforms { ") + kind + " }",
                  "has 1 channel, ");
  }
  EXPECT_TRUE(
      Resolved("tiny", "transforms { pad { padding: 1 fill: [1, 2, 3] } }")
          .ok());
  // As many as the field has channels, up to four.
  for (int channels : {2, 4}) {
    DatasetInfo planes;
    planes.set_name("planes");
    planes.set_samples(100);
    *planes.mutable_schema()->add_fields() =
        Make("image", DTYPE_UINT8, {8, 8, channels});
    datasets_["planes"] = &planes;
    for (const char* kind :
         {"pad { padding: 1 fill: [", "random_erasing { value: ["}) {
      const auto of = [&](const std::string& values) {
        return Resolved("planes",
                        absl::StrCat("transforms { ", kind, values, "] } }"));
      };
      const auto fits = of(channels == 2 ? "1, 2" : "1, 2, 3, 4");
      EXPECT_TRUE(fits.ok()) << fits.status();
      EXPECT_THAT(std::string(of("1, 2, 3").status().message()),
                  HasSubstr(absl::StrCat("has ", channels, " channels, ")));
    }
    datasets_.erase("planes");
  }
}

TEST_F(Trace, TheOrderIsSamplesBatchesNormalizeType) {
  const std::string blur = "transforms { gaussian_blur { kernel_size: 3 } } ";
  const std::string mix = "transforms { mix_up {} } ";
  const std::string type = "transforms { to_dtype { dtype: DTYPE_FLOAT32 } } ";
  ExpectInvalid("tiny", mix + blur,
                "transforms[1].gaussian_blur: gaussian_blur of field image "
                "comes after mix_up");
  ExpectInvalid("tiny", kNormalize + mix, "move mix_up in front of it");
  ExpectInvalid("tiny", kNormalize + blur, "move normalize to the end");
  ExpectInvalid("tiny",
                std::string(kNormalize) + "transforms { random_erasing {} } ",
                "write value: 255 * mean here");
  ExpectInvalid("tiny", std::string(kNormalize) + kNormalize,
                "has two normalize transforms");
  ExpectInvalid("tiny", type + kNormalize,
                "divides them by 255 and produces float32; remove to_dtype");
  ExpectInvalid("tiny", type + type, "nothing may come after to_dtype");
  ExpectInvalid("tiny", type + blur, "move to_dtype to the end");
  ExpectInvalid("photos", std::string(kCrop) + kDecode, "must be the field's");
  // Other fields do not matter.
  EXPECT_TRUE(
      Resolved("tiny",
               kNormalize + std::string("transforms { gaussian_blur { "
                                        "fields: 'mask' kernel_size: 3 } }"))
          .ok());
  // Both kinds of mixing, one after the other.
  EXPECT_TRUE(Resolved("tiny", mix + "transforms { cut_mix {} } ").ok());
}

TEST_F(Trace, MixingNeedsClassesFixedSizesAndPairs) {
  ExpectInvalid(
      "photos",
      std::string(kDecode) + kCrop + "transforms { mix_up { labels: 'id' } }",
      "does not contain its number of classes");
  ExpectInvalid("photos", std::string(kDecode) + "transforms { cut_mix {} }",
                "cannot be mixed: it has images of different sizes");
  const std::string two_sizes =
      std::string(kDecode) + kCrop +
      "transforms { decode_image { field: 'mask' } } "
      "transforms { center_crop { fields: 'mask' height: 7 width: 5 } } ";
  ExpectInvalid("photos",
                two_sizes +
                    "transforms { cut_mix { fields: ['image', 'mask'] "
                    "} }",
                "cut_mix cuts one rectangle from all of its fields");
  EXPECT_TRUE(Resolved("photos", two_sizes + "transforms { mix_up { fields: "
                                             "['image', 'mask'] } }")
                  .ok());
  ExpectInvalid("photos", "transforms { mix_up { fields: 'weight' } }",
                "is not an image");
  ExpectInvalid("tiny", "transforms { mix_up { fields: ['image', 'image'] } }",
                "named twice");
  auto spec = ParseSpecText(
      "sources { dataset: 'tiny' } batch_size: 1 transforms { mix_up {} }",
      "t");
  ASSERT_TRUE(spec.ok());
  EXPECT_THAT(std::string(ResolveSpec(*spec, datasets_).status().message()),
              HasSubstr("batch_size is 1"));
}

TEST_F(Trace, MasksAndBoxesGoWithTheirImage) {
  const std::string masks =
      std::string(kMask) + kDecode +
      "transforms { decode_image { field: 'mask' color: INDEX } } ";
  const FieldTrace mask =
      Of("mask", "photos",
         masks +
             "transforms { random_resized_crop { fields: ['image', 'mask'] "
             "height: 8 width: 9 } } transforms { color_jitter { "
             "hue_max: 0.1 } }");
  EXPECT_EQ(mask.role, FieldRole::MASK);
  EXPECT_EQ(mask.image, "image");
  EXPECT_THAT(mask.image_places, ElementsAre(1, 2));
  EXPECT_THAT(*mask.shape, ElementsAre(8, 9, 1));
  const FieldTrace boxes =
      Of("boxes", "photos",
         std::string(kBoxes) + kDecode +
             "transforms { center_crop { fields: ['image', 'boxes'] height: 8 "
             "width: 9 } } ");
  EXPECT_EQ(boxes.role, FieldRole::BOXES_XYXY);
  EXPECT_THAT(boxes.image_places, ElementsAre(1));
  EXPECT_THAT(*boxes.shape, ElementsAre(5, 4));
  EXPECT_EQ(boxes.dtype, DTYPE_FLOAT32);

  ExpectInvalid("photos", masks + kCrop,
                "without the mask of the same image in field mask: write "
                "fields: [\"image\", \"mask\"]");
  ExpectInvalid("photos",
                masks + "transforms { pad { fields: 'mask' padding: 1 } }",
                "write fields: [\"image\", \"mask\"], so that both move alike");
  ExpectInvalid("photos",
                std::string(kBoxes) +
                    "transforms { horizontal_flip { fields: 'boxes' } }",
                "holds boxes of field image");
  ExpectInvalid("photos",
                masks +
                    "transforms { color_jitter { fields: ['image', 'mask'] "
                    "hue_max: 0.1 } }",
                "changes the values of pixels, but field mask holds a mask");
  ExpectInvalid("photos", masks + "transforms { trivial_augment_wide {} }",
                "use random_affine and color_jitter instead");
  ExpectInvalid("tiny", std::string(kMask) + "transforms { mix_up {} }",
                "cannot follow: remove the transform");
  ExpectInvalid("tiny",
                std::string(kMask) +
                    "transforms { normalize { fields: 'mask' mean: 0 stddev: 1 "
                    "} }",
                "holds a mask");
  ExpectInvalid(
      "photos",
      std::string(kMask) + "transforms { decode_image { field: 'mask' } }",
      "with color: INDEX");
  ExpectInvalid("photos",
                "transforms { decode_image { field: 'mask' color: INDEX } }",
                "add field_roles { field: \"mask\" role: MASK");
  // Pixels are erased where they are: masks need not move.
  EXPECT_TRUE(
      Resolved("tiny", std::string(kMask) + "transforms { random_erasing {} }")
          .ok());
}

TEST_F(Trace, RolesMustFit) {
  const auto role = [](const std::string& text) {
    return "field_roles { " + text + " } ";
  };
  EXPECT_EQ(Resolved("tiny", role("field: 'masks' role: MASK")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Resolved("tiny", role("field: 'mask' role: MASK of: 'x'"))
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  ExpectInvalid("tiny", role("role: MASK"), "a role has no field");
  ExpectInvalid("tiny", std::string(kMask) + kMask, "has two roles");
  ExpectInvalid("tiny", role("field: 'mask' of: 'image'"),
                "an image does not belong to another field");
  ExpectInvalid("tiny", role("field: 'image' role: MASK"),
                "cannot belong to itself");
  ExpectInvalid("tiny",
                kMask + role("field: 'boxes' role: BOXES_XYXY of: 'mask'"),
                "has a role itself");
  ExpectInvalid("tiny", role("field: 'mask' role: MASK of: 'label'"),
                "field label is not an image");
  ExpectInvalid("tiny", role("field: 'small' role: MASK"),
                "mask small is 16 x 32, its image image 32 x 32");
  ExpectInvalid("tiny", role("field: 'label' role: MASK"),
                "is int64 [], a mask is");
  ExpectInvalid("tiny", kBoxes, "is int64 [5, 4], boxes are float32 [K, 4]");
  ExpectInvalid("tiny", role("field: 'mask' role: MASK fill: 256"),
                "the classes of a mask are 0 .. 255");
  ExpectInvalid("tiny", role("field: 'boxes' role: BOXES_XYXY fill: 1"),
                "the area outside a mask");
  const auto resolved = Resolved("tiny", kMask);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->field_roles(0).of(), "image");
  // The colour around the image is not that of a mask, which has its own.
  const auto filled = Resolved(
      "tiny", role("field: 'mask' role: MASK fill: 255") +
                  "transforms { pad { fields: ['image', 'mask'] padding: 1 "
                  "fill: [1, 2, 3] } }");
  EXPECT_TRUE(filled.ok()) << filled.status();
}

TEST_F(Trace, SeveralImagesMayShareATransform) {
  const FieldTrace mask = Of(
      "mask", "tiny",
      "transforms { random_crop { fields: ['image', 'mask'] height: 8 width: "
      "8 } } transforms { horizontal_flip { fields: ['mask', 'image'] } }");
  EXPECT_THAT(mask.image_places, ElementsAre(0, 1));
  EXPECT_THAT(*mask.shape, ElementsAre(8, 8, 1));
}

TEST_F(Trace, OperatorsMakeWhatTheySay) {
  // As a server with the operator has written it out.
  const auto traced = [&](const std::string& more) {
    auto spec = ParseSpecText(
        "transforms { custom { name: 'embed' fields: 'image' result_dtype: "
        "DTYPE_FLOAT32 result_shape: 16 } } " +
            more,
        "test");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return TraceField(*spec, tiny_.schema().fields(0));
  };
  const auto trace = traced("");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->dtype, DTYPE_FLOAT32);
  EXPECT_THAT(*trace->shape, ElementsAre(16));
  const auto refused = traced(kCrop);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("is not an image"));
}

}  // namespace
}  // namespace millrace::plan
