// Every transform of the spec: what its parameters may be, and what is written
// out for those that are left out.

#include "server/plan/transforms/transforms.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "server/plan/spec_check.h"

namespace millrace::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

Transform Parse(const std::string& text) {
  Transform transform;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &transform))
      << text;
  return transform;
}

const google::protobuf::FieldDescriptor* KindField(const Transform& transform) {
  return transform.GetReflection()->GetOneofFieldDescriptor(
      transform, transform.GetDescriptor()->oneof_decl(0));
}

std::string Problems(const std::string& text) {
  std::string lines;
  for (const TransformProblem& problem : FindTransformProblems(Parse(text))) {
    EXPECT_EQ(problem.status.code(), absl::StatusCode::kInvalidArgument);
    lines += problem.field;
    if (problem.index >= 0) lines += "[" + std::to_string(problem.index) + "]";
    lines += ": " + std::string(problem.status.message()) + "\n";
  }
  return lines;
}

// One of every kind, as short as it can be written, and what it stands for.
struct Defaulted {
  const char* text;
  const char* written;
};

const std::vector<Defaulted>& EveryKind() {
  static const auto& all = *new std::vector<Defaulted>{
      {"decode_image {}", "decode_image { field: 'image' }"},
      {"random_resized_crop { height: 4 width: 5 }",
       "random_resized_crop { fields: 'image' height: 4 width: 5 scale_min: "
       "0.08 scale_max: 1 ratio_min: 0.75 ratio_max: 1.3333333333333333 }"},
      {"resize { short_side: 4 }", "resize { fields: 'image' short_side: 4 }"},
      {"center_crop { height: 4 width: 5 }",
       "center_crop { fields: 'image' height: 4 width: 5 }"},
      {"horizontal_flip {}", "horizontal_flip { fields: 'image' p: 0.5 }"},
      {"normalize { mean: 0.5 stddev: 2 }",
       "normalize { fields: 'image' mean: 0.5 stddev: 2 }"},
      {"random_crop { height: 32 width: 32 padding: 4 }",
       "random_crop { fields: 'image' height: 32 width: 32 padding: [4, 4, 4, "
       "4] fill: 0 p: 1 }"},
      {"pad { padding: [1, 2] }",
       "pad { fields: 'image' padding: [1, 2, 1, 2] fill: 0 }"},
      {"vertical_flip {}", "vertical_flip { fields: 'image' p: 0.5 }"},
      {"color_jitter { brightness_min: 0.8 brightness_max: 1.2 }",
       "color_jitter { fields: 'image' brightness_min: 0.8 brightness_max: 1.2 "
       "p: 1 }"},
      {"grayscale {}", "grayscale { fields: 'image' p: 1 }"},
      {"gaussian_blur { kernel_size: 5 }",
       "gaussian_blur { fields: 'image' kernel_size: 5 sigma_min: 0.1 "
       "sigma_max: 2 p: 1 }"},
      {"random_rotation { degrees_min: -15 degrees_max: 15 }",
       "random_rotation { fields: 'image' degrees_min: -15 degrees_max: 15 "
       "interpolation: INTERPOLATION_NEAREST fill: 0 p: 1 }"},
      {"random_affine { degrees_max: 10 }",
       "random_affine { fields: 'image' degrees_max: 10 scale_min: 1 "
       "scale_max: "
       "1 interpolation: INTERPOLATION_NEAREST fill: 0 p: 1 }"},
      {"custom { name: 'gamma' }",
       "custom { name: 'gamma' fields: 'image' p: 1 }"},
      {"random_erasing {}",
       "random_erasing { fields: 'image' p: 0.5 scale_min: 0.02 scale_max: "
       "0.33 "
       "ratio_min: 0.3 ratio_max: 3.3 value: 0 }"},
      {"to_dtype { dtype: DTYPE_FLOAT16 }",
       "to_dtype { fields: 'image' dtype: DTYPE_FLOAT16 }"},
      {"trivial_augment_wide {}",
       "trivial_augment_wide { fields: 'image' num_magnitude_bins: 31 "
       "interpolation: INTERPOLATION_NEAREST fill: 0 p: 1 }"},
      {"rand_augment {}",
       "rand_augment { fields: 'image' num_ops: 2 magnitude: 9 "
       "num_magnitude_bins: 31 interpolation: INTERPOLATION_NEAREST fill: 0 p: "
       "1 }"},
      {"mix_up {}", "mix_up { fields: 'image' labels: 'label' alpha: 1 p: 1 }"},
      {"cut_mix {}",
       "cut_mix { fields: 'image' labels: 'label' alpha: 1 p: 1 }"},
  };
  return all;
}

TEST(TransformDefaults, AreWrittenOutForEveryKind) {
  std::set<int> kinds;
  for (const Defaulted& each : EveryKind()) {
    Transform transform = Parse(each.text);
    kinds.insert(transform.kind_case());
    EXPECT_EQ(Problems(each.text), "") << each.text;
    WriteDefaults(transform);
    EXPECT_EQ(transform.DebugString(), Parse(each.written).DebugString());
    // What is written out is valid, and stays as it is.
    EXPECT_EQ(Problems(each.written), "");
    const std::string once = transform.SerializeAsString();
    WriteDefaults(transform);
    EXPECT_EQ(transform.SerializeAsString(), once) << each.text;
  }
  // Also one that is added tomorrow.
  EXPECT_EQ(static_cast<int>(kinds.size()),
            Transform::descriptor()->oneof_decl(0)->field_count());
}

TEST(TransformDefaults, LeaveWhatIsWrittenAlone) {
  for (const char* text :
       {"horizontal_flip { fields: 'x' p: 0 }",
        "random_resized_crop { fields: 'a' height: 1 width: 1 scale_min: 0.5 "
        "scale_max: 0.5 ratio_min: 1 ratio_max: 1 p: 0.5 }",
        "random_rotation { fields: 'a' degrees_max: 1 interpolation: "
        "INTERPOLATION_BILINEAR fill: [1, 2, 3] p: 0 }",
        "rand_augment { fields: 'a' num_ops: 1 magnitude: 0 "
        "num_magnitude_bins: 10 interpolation: INTERPOLATION_BILINEAR fill: "
        "128 "
        "p: 0.1 }",
        "random_erasing { fields: 'a' p: 0.1 scale_min: 0.1 scale_max: 0.2 "
        "ratio_min: 1 ratio_max: 1 random_value: true }",
        "pad { fields: 'a' padding: [1, 2, 3, 4] padding_mode: PADDING_REFLECT "
        "}",
        "random_crop { fields: 'a' height: 1 width: 1 p: 0.5 }",
        "mix_up { fields: 'a' labels: ['b', 'c'] alpha: 0.2 p: 0.5 }"}) {
    Transform transform = Parse(text);
    EXPECT_EQ(Problems(text), "") << text;
    WriteDefaults(transform);
    EXPECT_EQ(transform.DebugString(), Parse(text).DebugString());
  }
  // A crop that is always made is one without p, as the first version knew it.
  Transform always = Parse("random_resized_crop { height: 1 width: 1 p: 1 }");
  WriteDefaults(always);
  EXPECT_FALSE(always.random_resized_crop().has_p());
}

TEST(TransformCheck, ProbabilitiesAreZeroToOneInEveryRandomTransform) {
  int random = 0;
  for (const Defaulted& each : EveryKind()) {
    Transform transform = Parse(each.written);
    const auto* kind = KindField(transform);
    const auto* p = kind->message_type()->FindFieldByName("p");
    if (p == nullptr) continue;
    ++random;
    for (double bad : {-0.01, 1.01, 1e300}) {
      google::protobuf::Message* message =
          transform.GetReflection()->MutableMessage(&transform, kind);
      message->GetReflection()->SetDouble(message, p, bad);
      const auto problems = FindTransformProblems(transform);
      ASSERT_EQ(problems.size(), 1u) << transform.DebugString();
      EXPECT_EQ(problems[0].field, "p");
      EXPECT_THAT(std::string(problems[0].status.message()),
                  HasSubstr("it must be 0 .. 1"));
    }
  }
  EXPECT_EQ(random, 15);
}

TEST(TransformKinds, DescribeEveryParameterOnce) {
  for (const Defaulted& each : EveryKind()) {
    const Transform transform = Parse(each.text);
    const auto* kind = KindField(transform);
    EXPECT_EQ(TransformName(transform), kind->name());
    std::vector<std::string> described, known;
    for (const Parameter& parameter : KindOf(transform)->parameters()) {
      described.insert(described.end(), parameter.fields.begin(),
                       parameter.fields.end());
    }
    for (int i = 0; i < kind->message_type()->field_count(); ++i) {
      const std::string& name = kind->message_type()->field(i)->name();
      if (name != "fields") known.push_back(name);  // every kind has it
    }
    EXPECT_THAT(described, UnorderedElementsAreArray(known)) << kind->name();
  }
  EXPECT_EQ(KindOf(Transform()), nullptr);
  EXPECT_EQ(TransformName(Transform()), "transform");
}

bool IsWhole(const Transform& transform, const std::string& name) {
  return KindField(transform)
             ->message_type()
             ->FindFieldByName(name)
             ->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32;
}

// `name` of the transform's message.
void Set(Transform& transform, const std::string& name, double value) {
  google::protobuf::Message& message =
      *transform.GetReflection()->MutableMessage(&transform,
                                                 KindField(transform));
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  if (!IsWhole(transform, name)) {
    message.GetReflection()->SetDouble(&message, field, value);
  } else {
    message.GetReflection()->SetUInt32(&message, field,
                                       static_cast<uint32_t>(value));
  }
}

// By the check that Open makes of a spec.
bool Takes(Transform transform, const Parameter& parameter, double first,
           double last) {
  Set(transform, parameter.fields.front(), first);
  Set(transform, parameter.fields.back(), last);
  PipelineSpec spec;
  spec.add_sources()->set_dataset("photos");
  spec.set_batch_size(8);
  *spec.add_transforms() = transform;
  const absl::Status status = CheckSpec(spec);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("transforms[0]." + TransformName(transform) + "."));
  }
  return status.ok();
}

TEST(TransformCheck, TakesEveryBoundAndNothingBeyond) {
  std::vector<std::string> texts = {
      // With one range left out another one changes something.
      "color_jitter { contrast_max: 2 hue_max: 0.1 }",
      "rand_augment { magnitude: 0 }", "resize { height: 4 width: 5 }"};
  for (const Defaulted& each : EveryKind()) {
    const std::string name = TransformName(Parse(each.text));
    if (name != "color_jitter" && name != "rand_augment") {
      texts.push_back(each.text);
    }
  }
  int numbers = 0;
  for (const std::string& text : texts) {
    const Transform base = Parse(text);
    for (const Parameter& parameter : KindOf(base)->parameters()) {
      if (!parameter.bounds) continue;
      const bool short_side = parameter.fields.front() == "short_side";
      if (base.has_resize() && short_side != (base.resize().height() == 0)) {
        continue;
      }
      const double low = parameter.bounds->low;
      const double high = parameter.bounds->high;
      const bool whole = IsWhole(base, parameter.fields.front());
      const double step = whole ? 1 : 0.001;
      const double first = parameter.bounds->above ? low + step : low;
      const std::string what = text + " " + parameter.fields.front();
      const bool pair = parameter.fields.size() == 2;
      EXPECT_TRUE(Takes(base, parameter, first, first)) << what;
      EXPECT_TRUE(Takes(base, parameter, high, high)) << what;
      EXPECT_TRUE(Takes(base, parameter, first, high)) << what;
      if (!whole || low >= 1) {
        // Of a pair, 0 without the other bound is no value either.
        const double below = parameter.bounds->above && pair ? low : low - step;
        EXPECT_FALSE(Takes(base, parameter, below, pair ? high : below))
            << what;
      }
      const double beyond = high + (parameter.bounds->odd ? 2 : step);
      EXPECT_FALSE(Takes(base, parameter, first, beyond)) << what;
      EXPECT_FALSE(Takes(base, parameter, beyond, beyond)) << what;
      numbers += static_cast<int>(parameter.fields.size());
    }
  }
  EXPECT_GE(numbers, 50);
}

// A written 0 became the default: mix_up { alpha: 0 } mixed with alpha 1, and
// color_jitter { saturation_min: 0 saturation_max: 0 } left the colours alone.
TEST(TransformCheck, AWrittenZeroIsNeverTheDefault) {
  struct Case {
    const char* text;
    const char* field;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {"mix_up { alpha: 0 }", "alpha", "above 0 and at most 1000"},
           {"cut_mix { alpha: 0 }", "alpha", "or left out for 1"},
           {"rand_augment { num_magnitude_bins: 0 }", "num_magnitude_bins",
            "is 0: it must be 2 .. 1001, or left out for 31"},
           {"trivial_augment_wide { num_magnitude_bins: 0 }",
            "num_magnitude_bins", "2 .. 1001"},
           {"random_erasing { scale_min: 0 scale_max: 0 }", "scale_min",
            "scale 0 .. 0: write 0 < scale_min"},
           {"random_erasing { ratio_min: 0 ratio_max: 0 }", "ratio_min",
            "neither for 0.3 .. 3.3"},
           {"random_resized_crop { height: 1 width: 1 scale_min: 0 }",
            "scale_min", "scale_min is 0, and scale_max is not written"},
           {"random_resized_crop { height: 1 width: 1 ratio_max: 0 }",
            "ratio_max", "ratio_max is 0, and ratio_min is not written"},
           {"random_affine { degrees_max: 3 scale_min: 0 scale_max: 0 }",
            "scale_min", "0 < scale_min"},
           {"random_affine { scale_min: 0 scale_max: 0 }", "scale_min",
            "0 < scale_min"},
           {"gaussian_blur { kernel_size: 3 sigma_min: 0 sigma_max: 0 }",
            "sigma_min", "neither for 0.1 .. 2"},
           {"color_jitter { saturation_min: 0 }", "saturation_min",
            "saturation_min is 0, and saturation_max is not written"},
           {"resize { height: 2 width: 2 short_side: 0 }", "short_side",
            "short_side is 0: it must be 1 .. 16384"},
           {"resize { short_side: 2 height: 0 }", "height", "1 .. 16384"},
       }) {
    const auto problems = FindTransformProblems(Parse(c.text));
    ASSERT_EQ(problems.size(), 1u) << c.text << "\n" << Problems(c.text);
    EXPECT_EQ(problems[0].field, c.field) << c.text;
    EXPECT_THAT(Problems(c.text), HasSubstr(c.message)) << c.text;
  }
}

TEST(TransformDefaults, KeepARangeOfZeroAndDropAZeroThatSaysNothing) {
  const char* const grey =
      "color_jitter { fields: 'a' brightness_min: 0 brightness_max: 0 "
      "saturation_min: 0 saturation_max: 0 p: 1 }";
  EXPECT_EQ(Problems(grey), "");
  Transform transform = Parse(grey);
  WriteDefaults(transform);
  EXPECT_EQ(transform.DebugString(), Parse(grey).DebugString());
  // The spec of a client that knows no written 0.
  Transform written = Parse("color_jitter { contrast_min: 0 contrast_max: 2 }");
  Transform left_out = Parse("color_jitter { contrast_max: 2 }");
  WriteDefaults(written);
  WriteDefaults(left_out);
  EXPECT_EQ(written.SerializeAsString(), left_out.SerializeAsString());
}

// A default other than 0 beside a field without presence would replace a
// written 0.
TEST(TransformKinds, EveryNumberWithADefaultKnowsWhetherItIsWritten) {
  for (const Defaulted& each : EveryKind()) {
    const Transform bare = Parse(each.text);
    Transform transform = bare;
    WriteDefaults(transform);
    const auto* kind = KindField(bare);
    const auto& before = bare.GetReflection()->GetMessage(bare, kind);
    const auto& after = transform.GetReflection()->GetMessage(transform, kind);
    for (int i = 0; i < kind->message_type()->field_count(); ++i) {
      const auto* field = kind->message_type()->field(i);
      if (field->is_repeated() ||
          field->cpp_type() ==
              google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        continue;
      }
      if (after.GetReflection()->HasField(after, field) &&
          !before.GetReflection()->HasField(before, field)) {
        EXPECT_TRUE(field->has_presence())
            << kind->name() << "." << field->name();
      }
    }
  }
}

// Of what is no single number; beyond them: see below.
TEST(TransformCheck, TakesTheLargestOfLists) {
  for (const char* text :
       {"random_crop { height: 3 width: 3 padding: 16384 fill: 255 }",
        "pad { padding: [16384, 0] fill: [0, 255, 0, 255] }",
        "random_erasing { value: [255, 0, 0, 0] }",
        "rand_augment { magnitude: 30 }",
        "rand_augment { num_magnitude_bins: 10 }",
        "normalize { mean: 1 stddev: 5 }"}) {
    EXPECT_EQ(Problems(text), "") << text;
  }
}

TEST(TransformCheck, MistakesNameTheParameterAndWhatToWrite) {
  struct Case {
    const char* text;
    const char* field;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {"random_crop { height: 0 width: 3 }", "height", "1 .. 16384"},
           {"random_crop { height: 3 width: 20000 }", "width", "1 .. 16384"},
           {"random_crop { height: 3 width: 3 padding: [1, 2, 3] }", "padding",
            "has 3 values"},
           {"random_crop { height: 3 width: 3 padding: [1, 99999] }",
            "padding[1]", "the maximum is 16384"},
           {"random_crop { height: 3 width: 3 fill: 4 }", "fill",
            "fill has no effect without padding"},
           {"random_crop { height: 3 width: 3 padding_mode: PADDING_EDGE }",
            "padding_mode", "without padding"},
           {"random_crop { height: 3 width: 3 pad_if_needed: true fill: 256 }",
            "fill[0]", "0 .. 255"},
           {"random_crop { height: 3 width: 3 padding: 1 fill: [1, 2, 3, 4, 5] "
            "}",
            "fill",
            "has 5 values: write one, or one for each channel for up to 4"},
           {"pad {}", "padding", "has 0 values"},
           {"pad { padding: 1 padding_mode: PADDING_EDGE fill: 3 }", "fill",
            "has an effect only with padding_mode: PADDING_CONSTANT"},
           {"color_jitter {}", "", "brightness=b is 1 - b .. 1 + b"},
           {"color_jitter { brightness_min: 1.2 brightness_max: 0.8 }",
            "brightness_max", "brightness_min <= brightness_max"},
           {"color_jitter { contrast_min: -1 contrast_max: 1 }", "contrast_min",
            "0 <= contrast_min"},
           {"color_jitter { saturation_max: 1000 }", "saturation_max",
            "<= 100"},
           {"color_jitter { hue_min: -0.6 hue_max: 0.6 }", "hue_min",
            "-0.5 <= hue_min"},
           {"color_jitter { hue_min: 0.1 }", "hue_max", "<= 0.5"},
           {"gaussian_blur { }", "kernel_size", "odd"},
           {"gaussian_blur { kernel_size: 4 }", "kernel_size", "odd"},
           {"gaussian_blur { kernel_size: 999 }", "kernel_size", "1 .. 127"},
           {"gaussian_blur { kernel_size: 3 sigma_max: 1 }", "sigma_min",
            "0 < sigma_min"},
           {"random_rotation {}", "degrees_max", "degrees=d is -d .. d"},
           {"random_rotation { degrees_min: 10 degrees_max: -10 }",
            "degrees_max", "degrees_min <= degrees_max"},
           {"random_rotation { degrees_min: -400 }", "degrees_min", "-360"},
           {"random_affine {}", "", "has no effect"},
           {"random_affine { scale_min: 1 scale_max: 1 }", "", "has no effect"},
           {"random_affine { translate_x: 1.5 }", "translate_x",
            "share of the side"},
           {"random_affine { scale_max: 2 }", "scale_min", "0 < scale_min"},
           {"random_affine { shear_x_max: 90 }", "shear_x_max", "<= 89"},
           {"random_erasing { scale_min: 0.5 scale_max: 0.1 }", "scale_max",
            "neither for 0.02 .. 0.33"},
           {"random_erasing { ratio_min: 0.001 ratio_max: 1 }", "ratio_min",
            "neither for 0.3 .. 3.3"},
           {"random_erasing { value: 300 }", "value[0]", "0 .. 255"},
           {"random_erasing { value: 3 random_value: true }", "random_value",
            "cannot be used together"},
           {"random_resized_crop { height: 1 width: 1 scale_max: 0.5 }",
            "scale_min", "neither for 0.08 .. 1"},
           {"trivial_augment_wide { num_magnitude_bins: 1 }",
            "num_magnitude_bins", "2 .. 1001"},
           {"rand_augment { num_ops: 0 }", "num_ops", "1 .. 16"},
           {"rand_augment { magnitude: 31 }", "magnitude", "0 .. 30"},
           {"rand_augment { num_magnitude_bins: 9 }", "magnitude", "0 .. 8"},
           {"mix_up { alpha: -1 }", "alpha", "above 0"},
           {"cut_mix { alpha: 1e6 }", "alpha", "at most 1000"},
           {"mix_up { fields: 'a' labels: 'a' }", "labels[0]",
            "both an image and a label"},
           {"to_dtype {}", "dtype", "has no dtype"},
           {"to_dtype { dtype: DTYPE_INT32 scale: true }", "scale",
            "which int32 cannot hold"},
           {"custom {}", "name", "has no name"},
           {"custom { name: 'a' library_hash: 'xyz' }", "library_hash",
            "32 hexadecimal digits"},
           {"custom { name: 'a' result_shape: 3 }", "result_shape",
            "the server sets them"},
           {"custom { name: 'a' result_dtype: DTYPE_INT8 result_shape: "
            "[99999999, 99999999] }",
            "result_shape", "of fixed size"},
       }) {
    const auto problems = FindTransformProblems(Parse(c.text));
    ASSERT_EQ(problems.size(), 1u) << c.text << "\n" << Problems(c.text);
    EXPECT_THAT(Problems(c.text), HasSubstr(c.message)) << c.text;
    EXPECT_EQ(Problems(c.text).substr(0, Problems(c.text).find(": ")), c.field)
        << c.text;
  }
  Transform huge = Parse("custom { name: 'a' }");
  huge.mutable_custom()->set_config(std::string(100'000, 'x'));
  ASSERT_EQ(FindTransformProblems(huge).size(), 1u);
  EXPECT_EQ(FindTransformProblems(huge)[0].field, "config");
}

TEST(TransformKinds, LabelsAreFieldsOfWhatMixes) {
  EXPECT_EQ(TransformFields(Parse("mix_up {}")),
            (std::vector<std::string>{"image", "label"}));
  EXPECT_EQ(
      TransformFields(Parse("cut_mix { fields: ['a', 'b'] labels: 'c' }")),
      (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_THAT(TransformFields(Transform()), IsEmpty());
  EXPECT_EQ(TransformFields(Parse("decode_image { field: 'm' }")),
            (std::vector<std::string>{"m"}));
}

}  // namespace
}  // namespace millrace::plan
