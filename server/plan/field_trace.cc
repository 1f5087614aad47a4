#include "server/plan/field_trace.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/plan/bytes_as_images.h"
#include "server/plan/field_rules.h"
#include "server/plan/sample_shape.h"
#include "server/plan/transforms/traced_field.h"
#include "server/plan/transforms/transforms.h"
#include "server/plan/value_range.h"

namespace millrace::plan {
namespace {

class Tracer {
 public:
  Tracer(const PipelineSpec& spec, const Field& field)
      : spec_(spec), field_(field), at_(field), trace_(at_.trace) {}

  absl::StatusOr<FieldTrace> Run() {
    trace_.role = RoleOf(spec_, field_.name());
    trace_.image = ImageOf(spec_, field_.name());
    MR_RETURN_IF_ERROR(Begin());
    MR_RETURN_IF_ERROR(CheckRole());
    for (int place = 0; place < spec_.transforms_size(); ++place) {
      const Transform& transform = spec_.transforms(place);
      const std::vector<std::string> fields = TransformFields(transform);
      if (std::find(fields.begin(), fields.end(), field_.name()) ==
          fields.end()) {
        continue;
      }
      at_.where =
          absl::StrCat("transforms[", place, "].", TransformName(transform));
      MR_RETURN_IF_ERROR(Follow(transform, place));
    }
    MR_RETURN_IF_ERROR(Finish());
    return std::move(trace_);
  }

 private:
  absl::Status Begin() {
    at_.where = "schema";
    switch (field_.kind()) {
      case FIELD_KIND_ENCODED_IMAGE:
        trace_.dtype = DTYPE_UINT8;
        trace_.why_not_fixed = absl::StrCat(
            "holds encoded images: add decode_image",
            field_.name() == "image"
                ? ""
                : absl::StrCat(" { field: \"", field_.name(), "\" }"),
            " and a transform that fixes their size, such as "
            "random_resized_crop or center_crop");
        return absl::OkStatus();
      case FIELD_KIND_TENSOR:
        if (!ShapeIsSane(field_.dtype(), field_.shape())) {
          return at_.Refuse(absl::StrCat(
              "has no usable type and shape in the dataset (",
              DTypeName(field_.dtype()), " [",
              absl::StrJoin(field_.shape(), ", "), "]): pack it again"));
        }
        if (field_.num_classes() != 0 &&
            (field_.dtype() != DTYPE_INT64 || field_.shape_size() != 0)) {
          return at_.Refuse(
              "has classes but is not an int64 scalar: pack it again");
        }
        trace_.dtype = field_.dtype();
        trace_.shape.emplace(field_.shape().begin(), field_.shape().end());
        return absl::OkStatus();
      default:
        trace_.dtype = field_.dtype();
        trace_.why_not_fixed = WhyRagged(field_);
        return absl::OkStatus();
    }
  }

  absl::Status CheckRole() {
    at_.where = "field_roles";
    if (trace_.role == FieldRole::MASK) {
      if (!at_.IsImage() || (!at_.encoded() && at_.Channels() != 1)) {
        return at_.Refuse(absl::StrCat(
            "is ", Stored(),
            ", a mask is an encoded image or uint8 [height, width, 1]"));
      }
    } else if (trace_.role == FieldRole::BOXES_XYXY) {
      if (field_.kind() != FIELD_KIND_TENSOR ||
          field_.dtype() != DTYPE_FLOAT32 || field_.shape_size() != 2 ||
          field_.shape(1) != 4) {
        return at_.Refuse(
            absl::StrCat("is ", Stored(),
                         ", boxes are float32 [K, 4], K the same in "
                         "every sample"));
      }
    }
    return absl::OkStatus();
  }

  std::string Stored() const {
    if (at_.encoded()) return "encoded images";
    if (field_.kind() != FIELD_KIND_TENSOR) return "of no fixed length";
    return absl::StrCat(DTypeName(field_.dtype()), " [",
                        absl::StrJoin(field_.shape(), ", "), "]");
  }

  absl::Status Follow(const Transform& transform, int place) {
    const TransformKind& kind = *KindOf(transform);
    switch (kind.phase) {
      case TransformPhase::kDecode:
        trace_.image_places.push_back(place);
        break;
      case TransformPhase::kSample:
        trace_.image_places.push_back(place);
        if (!(kind.any_tensor && trace_.shape)) {
          if (trace_.role == FieldRole::BOXES_XYXY) return absl::OkStatus();
          MR_RETURN_IF_ERROR(at_.NeedPixels());
        }
        break;
      case TransformPhase::kBatch:
        trace_.batch_places.push_back(place);
        break;
      case TransformPhase::kNormalize:
        trace_.normalize_place = place;
        break;
      case TransformPhase::kDtype:
        trace_.to_dtype_place = place;
        break;
    }
    return kind.Follow(transform, at_);
  }

  // Adds the type of the output on the wire and on the device.
  absl::Status Finish() {
    if (trace_.device_dtype == DTYPE_UNSPECIFIED) {
      trace_.device_dtype = trace_.dtype;
    }
    Output::Layout layout = Output::AS_STORED;
    for (int i = 0; i < spec_.outputs_size(); ++i) {
      const Output& output = spec_.outputs(i);
      if (output.field() != field_.name()) continue;
      layout = output.layout();
      at_.where = absl::StrCat("outputs[", i, "]");
      if (layout != Output::AS_STORED && trace_.shape &&
          (trace_.shape->size() != 3 || at_.Channels() == 0)) {
        return at_.Refuse(
            "is not an image of fixed size, so layout does not apply: remove "
            "layout");
      }
      if (absl::Status s = OnTheWire(output.dtype()); !s.ok()) return s;
    }
    if (!trace_.shape) return absl::OkStatus();
    trace_.device_shape = trace_.shape;
    const bool planes =
        layout == Output::NCHW ||
        (layout == Output::AS_STORED && trace_.normalize_place >= 0);
    if (planes && trace_.shape->size() == 3) {
      const std::vector<int64_t>& s = *trace_.shape;
      trace_.device_shape = std::vector<int64_t>{s[2], s[0], s[1]};
    }
    return absl::OkStatus();
  }

  // The transform that computes on pixels in the trainer; empty: none.
  absl::string_view ScaledByTheClient() const {
    if (trace_.normalize_place >= 0 &&
        trace_.normalize_on == PLACEMENT_CLIENT) {
      return "normalize";
    }
    const bool scales =
        trace_.to_dtype_place >= 0 && trace_.to_dtype_on == PLACEMENT_CLIENT &&
        spec_.transforms(trace_.to_dtype_place).to_dtype().scale();
    return scales ? "to_dtype with scale" : "";
  }

  // The wire may use a smaller type that holds every value.
  absl::Status OnTheWire(DType wanted) {
    if (wanted == DTYPE_UNSPECIFIED || wanted == trace_.dtype) {
      return absl::OkStatus();
    }
    if (const absl::string_view reader = ScaledByTheClient(); !reader.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          at_.where, ".dtype: field ", field_.name(), " is sent as ",
          DTypeName(wanted), ", but ", reader,
          " in the trainer reads uint8: remove dtype; the trainer gets ",
          DTypeName(trace_.device_dtype)));
    }
    const std::optional<ValueRange> values = at_.Values(trace_.dtype);
    if (IsFloatingPoint(wanted) || !values || !Holds(wanted, *values)) {
      return absl::UnimplementedError(absl::StrCat(
          at_.where, ".dtype: field ", field_.name(), " is ",
          DTypeName(trace_.dtype), " and conversion to ", DTypeName(wanted),
          " on the wire is not supported yet: remove dtype, and add to_dtype "
          "for another type in the trainer"));
    }
    trace_.dtype = wanted;
    return absl::OkStatus();
  }

  const PipelineSpec& spec_;
  const Field& field_;
  TracedField at_;     // the field after the transforms so far
  FieldTrace& trace_;  // the trace in at_
};

}  // namespace

absl::StatusOr<FieldTrace> TraceField(const PipelineSpec& spec,
                                      const Field& field) {
  return Tracer(spec, field).Run();
}

DType LabelWireType(int64_t num_classes) {
  const ValueRange classes = ValuesOfClasses(num_classes);
  for (DType dtype : {DTYPE_INT16, DTYPE_INT32}) {
    if (Holds(dtype, classes)) return dtype;
  }
  return DTYPE_INT64;
}

}  // namespace millrace::plan
