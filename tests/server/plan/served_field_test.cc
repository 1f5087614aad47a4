// What the server cannot compute of a field is refused where the field is in
// the batch, and only there.

#include "server/plan/served_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/spec_text.h"
#include "server/plan/resolve.h"

namespace millrace::plan {
namespace {

using ::testing::HasSubstr;

Field Tensor(const std::string& name, DType dtype, std::vector<int64_t> shape) {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
  return field;
}

class ServedField : public testing::Test {
 protected:
  ServedField() {
    info_.set_name("scenes");
    info_.set_samples(10);
    for (const Field& field : {
             Tensor("image", DTYPE_UINT8, {40, 60, 3}),
             Tensor("boxes", DTYPE_FLOAT32, {5, 4}),
             Tensor("mask", DTYPE_UINT8, {40, 60, 1}),
             Tensor("rgba", DTYPE_UINT8, {40, 60, 4}),
             Tensor("two", DTYPE_UINT8, {40, 60, 2}),
             Tensor("grey", DTYPE_UINT8, {40, 60, 1}),
             Tensor("long", DTYPE_UINT8, {2, 65536, 1}),
             Tensor("deep", DTYPE_UINT8, {2, 3, 65536}),
             Tensor("limit", DTYPE_UINT8, {2, 65535, 1}),
         }) {
      *info_.mutable_schema()->add_fields() = field;
    }
  }

  absl::Status Open(const std::string& transforms, const std::string& outputs) {
    auto spec = ParseSpecText(
        "sources { dataset: 'scenes' } batch_size: 2 "
        "field_roles { field: 'boxes' role: BOXES_XYXY } "
        "field_roles { field: 'mask' role: MASK } " +
            transforms + outputs,
        "test");
    if (!spec.ok()) return spec.status();
    return ResolveSpec(*spec, {{"scenes", &info_}}).status();
  }

  // Of a field that is in the batch; the same spec without the field is
  // accepted.
  void ExpectRefused(const std::string& transforms, const std::string& field,
                     absl::StatusCode code, const std::string& text) {
    SCOPED_TRACE(transforms);
    const absl::Status status =
        Open(transforms, "outputs { field: '" + field + "' }");
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(Open(transforms, "outputs { field: 'grey' }"), absl::OkStatus());
  }

  void ExpectServed(const std::string& transforms, const std::string& field) {
    EXPECT_EQ(Open(transforms, "outputs { field: '" + field + "' }"),
              absl::OkStatus())
        << transforms;
  }

  DatasetInfo info_;
};

constexpr char kAll[] = "fields: ['image', 'mask', 'boxes'] ";

TEST_F(ServedField, BoxesDoNotFollowMirroredOrRepeatedPixels) {
  for (const char* mode :
       {"PADDING_EDGE", "PADDING_REFLECT", "PADDING_SYMMETRIC"}) {
    for (const std::string& transform : std::vector<std::string>{
             "pad { padding: 2 ",
             "random_crop { height: 8 width: 8 padding: 2 "}) {
      const std::string name = transform.substr(0, transform.find(' '));
      const std::string text = "transforms { " + transform + kAll +
                               "padding_mode: " + mode + " } } ";
      ExpectRefused(text, "boxes", absl::StatusCode::kInvalidArgument,
                    "transforms[0]." + name +
                        ": field boxes holds boxes, which cannot follow");
      ExpectServed(text, "image");
      ExpectServed(text, "mask");
    }
  }
  ExpectServed(
      std::string("transforms { pad { padding: 2 fill: 9 ") + kAll + "} } ",
      "boxes");
}

TEST_F(ServedField, OnlyImagesOfOneAndThreeChannelsAreInterpolated) {
  for (const std::string& transform : std::vector<std::string>{
           "resize { height: 8 width: 8 ", "resize { short_side: 8 ",
           "random_resized_crop { height: 8 width: 8 "}) {
    for (const std::string& field : std::vector<std::string>{"rgba", "two"}) {
      const std::string begin =
          "transforms { " + transform + "fields: '" + field + "' ";
      const std::string crop =
          " } } transforms { center_crop { height: 8 width: 8 fields: '" +
          field + "' } } ";
      ExpectRefused(begin + crop, field, absl::StatusCode::kUnimplemented,
                    "set interpolation: INTERPOLATION_NEAREST");
      ExpectServed(begin + "interpolation: INTERPOLATION_NEAREST" + crop,
                   field);
    }
    ExpectServed("transforms { " + transform + kAll +
                     " } } transforms { center_crop { height: 8 width: 8 " +
                     kAll + "} } ",
                 "mask");
  }
}

TEST_F(ServedField, TransformsWorkOnRawPixelsUpToALimit) {
  for (const std::string& field : std::vector<std::string>{"long", "deep"}) {
    const std::string flip =
        "transforms { horizontal_flip { fields: '" + field + "' } } ";
    ExpectRefused(
        flip, field, absl::StatusCode::kInvalidArgument,
        "transforms[0].horizontal_flip: field " + field + " has the shape [");
    ExpectServed("", field);  // as it is stored
  }
  ExpectServed("transforms { horizontal_flip { fields: 'limit' } } ", "limit");
}

}  // namespace
}  // namespace millrace::plan
