#include "server/pipeline/built_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/pipeline/not_built.h"
#include "server/plan/content_revision.h"
#include "server/plan/field_trace.h"

namespace millrace {
namespace {

// Rough costs, which only decide how rows are gathered into tasks.
constexpr uint64_t kTaskNanos = 200'000;
constexpr uint64_t kRowNanos = 300;
constexpr uint64_t kBytesPerNano = 4;
constexpr uint64_t kImageNanos = 300'000;

int FieldIndex(const DatasetInfo& info, const std::string& name) {
  for (int i = 0; i < info.schema().fields_size(); ++i) {
    if (info.schema().fields(i).name() == name) return i;
  }
  MR_CHECK(false) << "a resolved spec names field " << name
                  << ", which the dataset does not have";
  return -1;
}

DeviceTransform OnDevice(const Normalize& normalize) {
  DeviceTransform transform;
  transform.set_dtype(DTYPE_FLOAT32);
  transform.set_scale(1.0f / 255.0f);
  *transform.mutable_mean() = normalize.mean();
  *transform.mutable_stddev() = normalize.stddev();
  return transform;
}

absl::StatusOr<std::unique_ptr<ImageStage>> MakeStage(
    const PipelineSpec& spec, const Field& field, const FieldTrace& trace,
    const ImageStageFactory& make_stage) {
  std::vector<PlacedTransform> transforms;
  for (uint32_t place : trace.image_places) {
    transforms.push_back({&spec.transforms(static_cast<int>(place)), place});
  }
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ImageStage> stage,
                      make_stage(field, transforms, {}));
  if (stage->output_shape() != *trace.shape) {
    return absl::InternalError(absl::StrCat(
        "the stages make [", absl::StrJoin(stage->output_shape(), ", "),
        "] of field ", field.name(), ", the plan [",
        absl::StrJoin(*trace.shape, ", "), "]"));
  }
  return stage;
}

}  // namespace

BuiltPipeline::BuiltPipeline(Plan plan, BatchLayout layout,
                             const DatasetInfo& info,
                             std::shared_ptr<const RecordSource> source,
                             BatchMemoryLimit limit)
    : plan_(std::move(plan)),
      layout_(std::move(layout)),
      info_(info),
      source_(std::move(source)),
      limit_(std::move(limit)) {}

absl::StatusOr<std::shared_ptr<const BuiltPipeline>> BuiltPipeline::Build(
    const PipelineSpec& resolved, const DatasetInfo& info,
    std::shared_ptr<const RecordSource> source, BatchMemoryLimit limit,
    const ImageStageFactory& make_stage) {
  MR_RETURN_IF_ERROR(CheckBuilt(resolved, info));
  MR_ASSIGN_OR_RETURN(Plan plan, Plan::Create(resolved, info));

  std::vector<Column> columns;
  std::vector<TensorSpec> tensors;
  uint64_t row_nanos = kRowNanos;
  for (const Output& output : resolved.outputs()) {
    Column& column = columns.emplace_back();
    column.field = FieldIndex(info, output.field());
    const Field& field = info.schema().fields(column.field);
    MR_ASSIGN_OR_RETURN(const FieldTrace trace, TraceField(resolved, field));
    MR_CHECK(trace.shape.has_value()) << output.field();
    if (!trace.image_places.empty()) {
      MR_ASSIGN_OR_RETURN(column.stage,
                          MakeStage(resolved, field, trace, make_stage));
      row_nanos += kImageNanos;
    }
    TensorSpec& tensor = tensors.emplace_back();
    tensor.set_name(output.name());
    tensor.set_dtype(trace.dtype);
    tensor.mutable_sample_shape()->Add(trace.shape->begin(),
                                       trace.shape->end());
    tensor.set_num_classes(field.num_classes());
    *tensor.mutable_class_names() = field.class_names();
    if (trace.normalize_place >= 0) {
      *tensor.mutable_device_transform() =
          OnDevice(resolved.transforms(trace.normalize_place).normalize());
    }
  }
  MR_ASSIGN_OR_RETURN(BatchLayout layout, BatchLayout::Create(tensors));
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    columns[i].bytes = layout.row_bytes(i);
  }
  row_nanos += layout.row_bytes() / kBytesPerNano;

  std::shared_ptr<BuiltPipeline> pipeline(
      new BuiltPipeline(std::move(plan), std::move(layout), info,
                        std::move(source), std::move(limit)));
  for (const Column& column : columns) {
    pipeline->has_stages_ |= column.stage != nullptr;
  }
  pipeline->columns_ = std::move(columns);
  pipeline->rows_per_task_ = std::max<uint64_t>(1, kTaskNanos / row_nanos);

  OpenResponse& description = pipeline->description_;
  const Plan& made = pipeline->plan_;
  *description.mutable_resolved_spec() = resolved;
  description.set_plan_hash(made.hash());
  for (TensorSpec& tensor : tensors) {
    *description.add_tensors() = std::move(tensor);
  }
  *description.add_tensors() = SampleIndexSpec();
  *description.add_tensors() = ValidSpec();
  description.set_steps_per_epoch(made.steps().steps());
  description.set_samples_per_epoch(made.steps().samples());
  description.set_dropped_per_epoch(made.steps().dropped());
  description.set_fingerprint(made.fingerprint());
  description.set_content_revision(kContentRevision);
  return pipeline;
}

absl::StatusOr<uint64_t> BuiltPipeline::MaxPayloadBytes(
    uint32_t world_size) const {
  MR_RETURN_IF_ERROR(plan_.steps().CheckWorld(world_size));
  const uint64_t rows = plan_.steps().MaxRows(world_size);
  const uint64_t bytes = layout_.PayloadBytes(rows);
  if (bytes + kBatchOverheadBytes > limit_.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch does not fit into the server's memory: batch_size ",
        plan_.spec().batch_size(), " / world size ", world_size, " = ", rows,
        " rows of ", layout_.row_bytes(), " bytes make ", bytes,
        " bytes with alignment, but ", limit_.arithmetic,
        ": take a smaller batch_size or more ranks, or give the server a "
        "larger --memory_budget"));
  }
  return bytes;
}

}  // namespace millrace
