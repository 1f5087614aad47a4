#include "server/plan/resolve.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/error_detail.h"
#include "server/plan/content_revision.h"
#include "server/plan/field_trace.h"
#include "server/plan/presets.h"
#include "server/plan/spec_check.h"

namespace millrace {
namespace {

// Defaults of BLOCK order.
constexpr uint64_t kDefaultBlockSize = 64;
constexpr uint64_t kDefaultWindowBlocks = 64;

absl::StatusOr<const DatasetInfo*> FindDataset(const std::string& name,
                                               const DatasetInfos& datasets) {
  const auto it = datasets.find(name);
  if (it != datasets.end()) return it->second;
  return absl::NotFoundError(absl::StrCat(
      "there is no dataset \"", name, "\" on this server; it has: ",
      datasets.empty() ? "none"
                       : absl::StrJoin(datasets, ", ",
                                       [](std::string* out, const auto& entry) {
                                         out->append(entry.first);
                                       })));
}

std::string FieldNames(const DatasetInfo& info) {
  return absl::StrJoin(
      info.schema().fields(), ", ",
      [](std::string* out, const Field& f) { out->append(f.name()); });
}

const Field* FindField(const DatasetInfo& info, const std::string& name) {
  const auto& fields = info.schema().fields();
  const auto it =
      std::find_if(fields.begin(), fields.end(),
                   [&](const Field& f) { return f.name() == name; });
  return it == fields.end() ? nullptr : &*it;
}

absl::Status NoSuchField(absl::string_view where, const std::string& name,
                         const DatasetInfo& info) {
  return absl::NotFoundError(
      absl::StrCat(where, ": dataset ", info.name(), " has no field \"", name,
                   "\"; its fields are ", FieldNames(info)));
}

template <typename M>
void DefaultFields(M& message) {
  if (message.fields().empty()) message.add_fields("image");
}

void WriteDefaults(Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kDecodeImage:
      if (transform.decode_image().field().empty()) {
        transform.mutable_decode_image()->set_field("image");
      }
      break;
    case Transform::kRandomResizedCrop: {
      RandomResizedCrop& crop = *transform.mutable_random_resized_crop();
      DefaultFields(crop);
      if (crop.scale_min() == 0 && crop.scale_max() == 0) {
        crop.set_scale_min(0.08);
        crop.set_scale_max(1.0);
      }
      if (crop.ratio_min() == 0 && crop.ratio_max() == 0) {
        crop.set_ratio_min(3.0 / 4.0);
        crop.set_ratio_max(4.0 / 3.0);
      }
      break;
    }
    case Transform::kResize:
      DefaultFields(*transform.mutable_resize());
      break;
    case Transform::kCenterCrop:
      DefaultFields(*transform.mutable_center_crop());
      break;
    case Transform::kHorizontalFlip: {
      HorizontalFlip& flip = *transform.mutable_horizontal_flip();
      DefaultFields(flip);
      if (!flip.has_p()) flip.set_p(0.5);
      break;
    }
    case Transform::kNormalize:
      DefaultFields(*transform.mutable_normalize());
      break;
    default:
      break;
  }
}

absl::Status WriteOutputs(const DatasetInfo& info, PipelineSpec& spec) {
  const bool listed = spec.outputs_size() > 0;
  std::string left_out;
  for (const Field& field : info.schema().fields()) {
    // Traced even when it is no output: its transforms must fit.
    MR_ASSIGN_OR_RETURN(const FieldTrace trace, TraceField(spec, field));
    Output* output = nullptr;
    if (listed) {
      for (int i = 0; i < spec.outputs_size(); ++i) {
        if (spec.outputs(i).field() != field.name()) continue;
        output = spec.mutable_outputs(i);
        if (!trace.shape) {
          const std::string text =
              absl::StrCat("outputs[", i, "]: field ", field.name(), " ",
                           trace.why_not_fixed);
          return field.kind() == FIELD_KIND_RAGGED
                     ? absl::UnimplementedError(text)
                     : absl::InvalidArgumentError(text);
        }
        if (output->dtype() != DTYPE_UNSPECIFIED &&
            output->dtype() != trace.dtype) {
          return absl::UnimplementedError(
              absl::StrCat("outputs[", i, "].dtype: field ", field.name(),
                           " is ", DTypeName(trace.dtype),
                           " and conversion to ", DTypeName(output->dtype()),
                           " is not built yet: leave dtype out"));
        }
      }
    } else if (trace.shape) {
      output = spec.add_outputs();
      output->set_field(field.name());
    } else {
      absl::StrAppend(&left_out, "; field ", field.name(), " ",
                      trace.why_not_fixed);
    }
    if (output == nullptr) continue;
    if (output->name().empty()) output->set_name(field.name());
    output->set_dtype(trace.dtype);
  }
  if (spec.outputs_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "outputs: dataset ", info.name(),
        " has no field that makes a tensor of fixed shape", left_out));
  }
  // A default output may collide with the tensors of every batch.
  return CheckSpec(spec);
}

absl::StatusOr<PipelineSpec> Resolve(const PipelineSpec& spec,
                                     const DatasetInfos& datasets) {
  MR_RETURN_IF_ERROR(CheckSpec(spec));
  MR_ASSIGN_OR_RETURN(const DatasetInfo* info,
                      FindDataset(spec.sources(0).dataset(), datasets));
  if (info->samples() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dataset ", info->name(), " holds no sample: pack it again"));
  }
  PipelineSpec resolved = spec;
  resolved.set_spec_version(kSpecVersion);
  if (!spec.preset().empty()) {
    MR_ASSIGN_OR_RETURN(const std::vector<Transform> transforms,
                        ExpandPreset(spec.preset(), *info));
    resolved.mutable_transforms()->Add(transforms.begin(), transforms.end());
    resolved.clear_preset();
  }
  resolved.mutable_sources(0)->set_weight(1);  // ignored with one source
  Shuffle& shuffle = *resolved.mutable_shuffle();
  if (shuffle.mode() == Shuffle::BLOCK) {
    if (shuffle.block_size() == 0) shuffle.set_block_size(kDefaultBlockSize);
    if (shuffle.window_blocks() == 0) {
      shuffle.set_window_blocks(kDefaultWindowBlocks);
    }
  }
  resolved.mutable_bad_samples();
  for (int i = 0; i < resolved.transforms_size(); ++i) {
    for (const std::string& name : TransformFields(resolved.transforms(i))) {
      if (FindField(*info, name) == nullptr) {
        return NoSuchField(absl::StrCat("transforms[", i, "]"), name, *info);
      }
    }
    WriteDefaults(*resolved.mutable_transforms(i));
  }
  for (int i = 0; i < resolved.outputs_size(); ++i) {
    const std::string& name = resolved.outputs(i).field();
    if (FindField(*info, name) == nullptr) {
      return NoSuchField(absl::StrCat("outputs[", i, "]"), name, *info);
    }
  }
  MR_RETURN_IF_ERROR(WriteOutputs(*info, resolved));
  return resolved;
}

}  // namespace

absl::StatusOr<PipelineSpec> ResolveSpec(const PipelineSpec& spec,
                                         const DatasetInfos& datasets) {
  absl::StatusOr<PipelineSpec> resolved = Resolve(spec, datasets);
  if (resolved.ok()) return resolved;
  ErrorDetail detail = MakeErrorDetail("plan");
  if (spec.sources_size() > 0) detail.set_dataset(spec.sources(0).dataset());
  return WithErrorDetail(resolved.status(), detail);
}

}  // namespace millrace
