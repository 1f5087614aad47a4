#include "server/pipeline/built_pipeline/column.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/tensor_cast.h"
#include "server/plan/field_trace.h"

namespace millrace::pipeline {
namespace {

// The scale of torchvision's to_dtype(scale=True) and Normalize: bytes become 0
// .. 1.
constexpr float kByteScale = 1.0f / 255.0f;

// The fill of the mask's role; 0 without a role.
uint8_t MaskFill(const PipelineSpec& spec, const Field& field) {
  for (const FieldRole& role : spec.field_roles()) {
    if (role.field() != field.name()) continue;
    return static_cast<uint8_t>(std::min(role.fill(), 255u));
  }
  return 0;
}

absl::StatusOr<std::unique_ptr<ImageStage>> MakeStage(
    const PipelineSpec& spec, const Field& field, const plan::FieldTrace& trace,
    const ImageStageFactory& make_stage) {
  std::vector<PlacedTransform> transforms;
  for (uint32_t place : trace.image_places) {
    transforms.push_back({&spec.transforms(static_cast<int>(place)), place});
  }
  ImageStageOptions options;
  options.role = trace.role;
  options.mask_fill = MaskFill(spec, field);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ImageStage> stage,
                      make_stage(field, transforms, options));
  if (stage->output_shape() != *trace.shape) {
    return absl::InternalError(absl::StrCat(
        "the stages produce [", absl::StrJoin(stage->output_shape(), ", "),
        "] of field ", field.name(), ", the plan says [",
        absl::StrJoin(*trace.shape, ", "), "]"));
  }
  return stage;
}

// The result type of the last operator on tensors; unspecified without an
// operator.
DType OperatorType(const PipelineSpec& spec, const plan::FieldTrace& trace) {
  DType dtype = DTYPE_UNSPECIFIED;
  for (uint32_t place : trace.image_places) {
    const Transform& transform = spec.transforms(static_cast<int>(place));
    if (transform.custom().result_dtype() != DTYPE_UNSPECIFIED) {
      dtype = transform.custom().result_dtype();
    }
  }
  return dtype;
}

// The result type of the stage: pixels, or the result of the last operator on
// tensors.
DType ResultType(const PipelineSpec& spec, const Field& field,
                 const plan::FieldTrace& trace) {
  const DType dtype = OperatorType(spec, trace);
  if (dtype != DTYPE_UNSPECIFIED) return dtype;
  return field.kind() == FIELD_KIND_TENSOR ? field.dtype() : DTYPE_UINT8;
}

// Sets what normalize and to_dtype compute at `where`, and the resulting type:
// on the server the wire type, on the client the trainer's type. False: nothing
// is computed there.
bool TransformAt(Placement where, const PipelineSpec& spec,
                 const plan::FieldTrace& trace, DType from, DType to,
                 DeviceTransform* transform) {
  if (trace.normalize_place >= 0 && trace.normalize_on == where) {
    const Normalize& normalize =
        spec.transforms(trace.normalize_place).normalize();
    transform->set_scale(kByteScale);
    *transform->mutable_mean() = normalize.mean();
    *transform->mutable_stddev() = normalize.stddev();
  } else if (trace.to_dtype_place >= 0 && trace.to_dtype_on == where &&
             spec.transforms(trace.to_dtype_place).to_dtype().scale()) {
    transform->set_scale(kByteScale);
  } else if (from == to) {
    return false;
  }
  transform->set_dtype(to);
  return true;
}

}  // namespace

absl::StatusOr<MadeColumn> MakeColumn(const PipelineSpec& resolved,
                                      const Output& output, const Field& field,
                                      int index,
                                      const ImageStageFactory& make_stage) {
  MR_ASSIGN_OR_RETURN(const plan::FieldTrace trace,
                      plan::TraceField(resolved, field));
  MR_CHECK(trace.shape.has_value()) << output.field();
  MadeColumn made;
  Column& column = made.column;
  column.field = index;

  // The tensor before it is converted for the wire.
  TensorSpec raw;
  raw.set_name(output.name());
  raw.mutable_sample_shape()->Add(trace.shape->begin(), trace.shape->end());
  if (trace.mixed_label) {
    column.classes = field.num_classes();
    raw.set_dtype(DTYPE_FLOAT32);
  } else if (!trace.image_places.empty()) {
    MR_ASSIGN_OR_RETURN(column.stage,
                        MakeStage(resolved, field, trace, make_stage));
    made.runs_images = trace.role != FieldRole::BOXES_XYXY;
    if (trace.role != FieldRole::IMAGE) made.image = trace.image;
    raw.set_dtype(ResultType(resolved, field, trace));
  } else {
    raw.set_dtype(field.dtype());
  }
  if (trace.role == FieldRole::MASK &&
      OperatorType(resolved, trace) == DTYPE_UNSPECIFIED) {
    column.empty = MaskFill(resolved, field);
  }
  column.raw_bytes = ElementBytes(raw.dtype());
  for (int64_t dim : *trace.shape) column.raw_bytes *= dim;
  const bool is_image = trace.shape->size() == 3;
  if (is_image) {
    column.channels = trace.shape->at(2);
    column.row_stride = trace.shape->at(1) * column.channels;
  }

  const bool planes = output.layout() == Output::NCHW && is_image;
  const bool converts =
      TransformAt(PLACEMENT_SERVER, resolved, trace, raw.dtype(), trace.dtype,
                  raw.mutable_device_transform());
  if (!converts) raw.clear_device_transform();
  if (converts || planes) {
    MR_ASSIGN_OR_RETURN(column.format, batch::RowFormat::Make(raw, planes));
  }

  TensorSpec& tensor = made.tensor;
  tensor.set_name(output.name());
  tensor.set_dtype(trace.dtype);
  *tensor.mutable_sample_shape() = raw.sample_shape();
  if (planes) {
    tensor.set_sample_shape(0, raw.sample_shape(2));
    tensor.set_sample_shape(1, raw.sample_shape(0));
    tensor.set_sample_shape(2, raw.sample_shape(1));
  }
  // The result of an operator on a class index is no class index.
  if (OperatorType(resolved, trace) == DTYPE_UNSPECIFIED) {
    tensor.set_num_classes(field.num_classes());
    *tensor.mutable_class_names() = field.class_names();
  }
  if (TransformAt(PLACEMENT_CLIENT, resolved, trace, trace.dtype,
                  trace.device_dtype, tensor.mutable_device_transform())) {
    if (planes) tensor.mutable_device_transform()->set_channels_first(true);
    // A transform that the client cannot compute is refused here, not in the
    // trainer.
    MR_RETURN_IF_ERROR(TensorCast::Make(tensor).status());
  } else {
    tensor.clear_device_transform();
  }
  if (is_image) {
    const bool shown_as_planes =
        output.layout() == Output::AS_STORED && trace.normalize_place >= 0;
    tensor.set_view(shown_as_planes ? TensorSpec::VIEW_CHANNELS_FIRST
                                    : TensorSpec::VIEW_AS_STORED);
  }
  return made;
}

absl::StatusOr<std::unique_ptr<ImageStage>> MakeSizeStage(
    const PipelineSpec& resolved, const Field& field,
    const ImageStageFactory& make_stage) {
  MR_ASSIGN_OR_RETURN(const plan::FieldTrace trace,
                      plan::TraceField(resolved, field));
  // Only the decoding transforms are needed: they determine the orientation.
  std::vector<PlacedTransform> transforms;
  for (uint32_t place : trace.image_places) {
    const Transform& transform = resolved.transforms(static_cast<int>(place));
    if (transform.has_decode_image()) transforms.push_back({&transform, place});
  }
  ImageStageOptions options;
  options.size_only = true;
  return make_stage(field, transforms, options);
}

}  // namespace millrace::pipeline
