#include "server/plan/resolve.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "proto/flag_hint.h"
#include "server/plan/bytes_as_images.h"
#include "server/plan/content_revision.h"
#include "server/plan/cut_mix_size.h"
#include "server/plan/field_trace.h"
#include "server/plan/find_field.h"
#include "server/plan/image_field.h"
#include "server/plan/presets.h"
#include "server/plan/reserved_output.h"
#include "server/plan/resolve_operators.h"
#include "server/plan/same_tensors.h"
#include "server/plan/served_field.h"
#include "server/plan/spec_check.h"
#include "server/plan/spec_limits.h"
#include "server/plan/subset.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::plan {
namespace {

absl::StatusOr<const DatasetInfo*> FindDataset(const std::string& name,
                                               const DatasetInfos& datasets) {
  const auto it = datasets.find(name);
  if (it != datasets.end()) return it->second;
  return absl::NotFoundError(absl::StrCat(
      "unknown dataset \"", name, "\"; this server has: ",
      datasets.empty() ? "none"
                       : absl::StrJoin(datasets, ", ",
                                       [](std::string* out, const auto& entry) {
                                         out->append(entry.first);
                                       })));
}

// "its fields are image, label".
std::string ItsFields(const DatasetInfo& info) {
  const auto& fields = info.schema().fields();
  if (fields.empty()) return "the server cannot serve any of its fields";
  return absl::StrCat(
      fields.size() == 1 ? "its only field is " : "its fields are ",
      absl::StrJoin(fields, ", ", [](std::string* out, const Field& f) {
        out->append(f.name());
      }));
}

absl::Status NoSuchField(absl::string_view where, const std::string& name,
                         const DatasetInfo& info) {
  for (const LeftOutColumn& column : info.left_out()) {
    if (column.name() != name) continue;
    return absl::NotFoundError(
        absl::StrCat(where, ": column \"", name, "\" of dataset ", info.name(),
                     " is left out: ", column.reason(), "; ", ItsFields(info)));
  }
  return absl::NotFoundError(absl::StrCat(
      where, ": dataset ", info.name(), " has no field \"", name, "\"; ",
      ItsFields(info), name == "image" ? BytesFieldHint(info) : ""));
}

// Checks that the fields of the roles exist, and that stored masks are as large
// as their images.
absl::Status CheckRoles(const DatasetInfo& info, PipelineSpec& spec) {
  for (int i = 0; i < spec.field_roles_size(); ++i) {
    const std::string where = absl::StrCat("field_roles[", i, "]");
    FieldRole& role = *spec.mutable_field_roles(i);
    const Field* field = FindField(info, role.field());
    if (field == nullptr) return NoSuchField(where, role.field(), info);
    if (role.role() == FieldRole::IMAGE) continue;
    if (role.of().empty()) role.set_of("image");
    const Field* image = FindField(info, role.of());
    if (image == nullptr) {
      return NoSuchField(absl::StrCat(where, ".of"), role.of(), info);
    }
    if (!IsImage(*image)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".of: field ", image->name(),
                       " is not an image (encoded, or raw uint8 [height, "
                       "width, channels]): name the image that ",
                       field->name(), " belongs to"));
    }
    if (role.role() == FieldRole::MASK && IsRawImage(*image) &&
        IsRawImage(*field) &&
        (field->shape(0) != image->shape(0) ||
         field->shape(1) != image->shape(1))) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": mask ", field->name(), " is ", field->shape(0), " x ",
          field->shape(1), ", its image ", image->name(), " ", image->shape(0),
          " x ", image->shape(1), ": they must be equal"));
    }
  }
  return absl::OkStatus();
}

// Classes use the smallest wire type that holds them; the device widens them.
DType DefaultWireType(const Field& field, const FieldTrace& trace) {
  const bool is_class = field.num_classes() > 0 && !trace.mixed_label &&
                        trace.image_places.empty() && trace.shape &&
                        trace.shape->empty();
  return is_class && trace.dtype == DTYPE_INT64
             ? LabelWireType(field.num_classes())
             : trace.dtype;
}

// Fields or columns that cannot be tensors for the same reason.
struct Missing {
  bool columns = false;  // left out of the dataset's fields
  std::vector<absl::string_view> names;
  std::string reason;
};

void AddMissing(bool column, absl::string_view name, std::string reason,
                std::vector<Missing>& groups) {
  const auto same =
      std::find_if(groups.begin(), groups.end(), [&](const Missing& group) {
        return group.columns == column && group.reason == reason;
      });
  if (same != groups.end()) {
    same->names.push_back(name);
  } else {
    groups.push_back({column, {name}, std::move(reason)});
  }
}

// A column may have no name.
void AppendName(std::string* out, absl::string_view name) {
  absl::StrAppend(out, name.empty() ? "''" : name);
}

std::string TextOf(const Missing& group) {
  const bool one = group.names.size() == 1;
  const std::string names = absl::StrJoin(group.names, ", ", AppendName);
  return absl::StrCat(group.columns ? "column" : "field", one ? " " : "s ",
                      names, one ? "" : ", each",
                      group.columns || !one ? ": " : " ", group.reason);
}

// A status on the wire has at most 1200 bytes (proto/grpc_status.h) and is cut
// at its end, where the remedy is. This message leaves room for a prefix.
constexpr size_t kMaxMissingBytes = 1100;
constexpr size_t kMaxRemedyBytes = 600;
constexpr size_t kMinReasonsBytes = 300;

// The reasons in at most `room` bytes. Names without a reason stand for those
// that do not fit.
std::string ReasonsOf(const std::vector<Missing>& groups, size_t room) {
  constexpr size_t kNamesBytes = 120;
  std::vector<std::string> texts;
  size_t all = 0;
  for (const Missing& group : groups) {
    texts.push_back(TextOf(group));
    all += texts.back().size() + 2;
  }
  std::vector<std::string> shown;
  std::vector<absl::string_view> rest;
  size_t used = all <= room ? 0 : kNamesBytes;
  for (size_t i = 0; i < groups.size(); ++i) {
    used += texts[i].size() + 2;
    if (used <= room) {
      shown.push_back(std::move(texts[i]));
    } else {
      used -= texts[i].size() + 2;
      rest.insert(rest.end(), groups[i].names.begin(), groups[i].names.end());
    }
  }
  if (!rest.empty()) {
    shown.push_back(absl::StrCat("and without a reason here: ",
                                 absl::StrJoin(rest, ", ", AppendName)));
  }
  return CleanText(absl::StrJoin(shown, "; "), room);
}

// "To do without, list the outputs: ...", with as many fields as fit.
std::string Remedy(const PipelineSpec& spec,
                   const std::vector<Missing>& groups) {
  bool label = false;
  for (const Missing& group : groups) {
    label |= std::any_of(group.names.begin(), group.names.end(), &IsLabelName);
  }
  std::vector<absl::string_view> fields;
  std::vector<absl::string_view> taken;  // fields with reserved names
  size_t bytes = 0;
  for (const Output& output : spec.outputs()) {
    if (IsReservedOutput(output.name(), spec)) {
      taken.push_back(output.field());
      continue;
    }
    label &= !IsLabelName(output.field());
    bytes += ListOutputs({output.field()}).size() - ListOutputs({}).size();
    if (!fields.empty() && bytes > kMaxRemedyBytes) continue;
    fields.push_back(output.field());
  }
  const size_t others = spec.outputs_size() - taken.size();
  if (others == 0) {
    return absl::StrCat(
        ". To do without, set another name of ", taken[0],
        ", because every batch has a tensor of that name: outputs { field: \"",
        taken[0], "\" name: \"NAME\" }");
  }
  std::string text = ". To do without";
  if (label) absl::StrAppend(&text, " (the batch then has no label)");
  if (!taken.empty()) {
    absl::StrAppend(&text, ", and without ", absl::StrJoin(taken, ", "),
                    " (give another name, because every batch has a tensor of "
                    "that name)");
  }
  if (fields.size() < others) {
    absl::StrAppend(&text, " (here the first ", fields.size(), " of the ",
                    others, " other fields)");
  }
  return absl::StrCat(text, ", ", ListOutputs(fields));
}

// Names every field that cannot be a tensor, and says how to make a tensor of
// it or how to leave it out. A field is never left out silently.
absl::Status FieldsWouldBeMissing(const DatasetInfo& info,
                                  const PipelineSpec& spec,
                                  const std::vector<Missing>& groups) {
  if (spec.outputs_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("outputs: dataset ", info.name(),
                     " has no field that becomes a tensor of fixed shape; ",
                     ReasonsOf(groups, kMaxMissingBytes - kMinReasonsBytes)));
  }
  size_t missing = 0;
  for (const Missing& group : groups) missing += group.names.size();
  const std::string what = absl::StrCat(
      "outputs: ", missing, missing == 1 ? " field" : " fields", " of dataset ",
      info.name(), " would be missing from the batch: ");
  const std::string remedy = Remedy(spec, groups);
  const size_t taken = what.size() + remedy.size();
  const size_t room = taken + kMinReasonsBytes < kMaxMissingBytes
                          ? kMaxMissingBytes - taken
                          : kMinReasonsBytes;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ReasonsOf(groups, room), remedy));
}

// Why the field has no tensor of fixed shape. FieldTrace explains ragged fields
// by the columns of Parquet files.
std::string WhyNotFixed(const DatasetInfo& info, const Field& field,
                        const FieldTrace& trace) {
  if (field.kind() == FIELD_KIND_RAGGED && !info.format().empty() &&
      info.format() != "parquet") {
    return "has values of variable length, and ragged tensors are not "
           "supported yet";
  }
  return trace.why_not_fixed;
}

absl::Status WriteOutputs(const DatasetInfo& info, PipelineSpec& spec) {
  const bool listed = spec.outputs_size() > 0;
  std::vector<Missing> missing;
  for (const Field& field : info.schema().fields()) {
    // Traced even if the field is no output, because its transforms must fit.
    MR_ASSIGN_OR_RETURN(const FieldTrace trace, TraceField(spec, field));
    Output* output = nullptr;
    if (listed) {
      for (int i = 0; i < spec.outputs_size(); ++i) {
        if (spec.outputs(i).field() != field.name()) continue;
        output = spec.mutable_outputs(i);
        if (!trace.shape) {
          const std::string text =
              absl::StrCat("outputs[", i, "]: field ", field.name(), " ",
                           WhyNotFixed(info, field, trace));
          return field.kind() == FIELD_KIND_RAGGED
                     ? absl::UnimplementedError(text)
                     : absl::InvalidArgumentError(text);
        }
      }
    } else if (trace.shape) {
      output = spec.add_outputs();
      output->set_field(field.name());
    } else {
      AddMissing(false, field.name(), WhyNotFixed(info, field, trace), missing);
    }
    if (output == nullptr) continue;
    MR_RETURN_IF_ERROR(CheckServed(spec, field, trace));
    if (output->name().empty()) output->set_name(field.name());
    output->set_dtype(output->dtype() == DTYPE_UNSPECIFIED
                          ? DefaultWireType(field, trace)
                          : trace.dtype);
  }
  if (!listed) {
    for (const LeftOutColumn& column : info.left_out()) {
      AddMissing(true, column.name(), column.reason(), missing);
    }
  }
  if (!listed && spec.outputs_size() > kMaxOutputs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "outputs: dataset ", info.name(), " has ", spec.outputs_size(),
        " fields, and a batch has at most ", kMaxOutputs,
        " tensors. To choose some, ", ListOutputs({spec.outputs(0).field()})));
  }
  if (!missing.empty() || spec.outputs_size() == 0) {
    return FieldsWouldBeMissing(info, spec, missing);
  }
  // The name of a default output may equal that of a tensor of every batch.
  return CheckSpec(spec);
}

// Checks the spec against the dataset of spec.sources(source), and writes out
// its defaults. A spec that was resolved against another dataset must not
// change, except for the source's reader.
absl::Status ResolveAgainst(const DatasetInfo& info,
                            const OperatorCatalog* operators, int source,
                            PipelineSpec& spec) {
  for (int i = 0; i < spec.transforms_size(); ++i) {
    for (const std::string& name : TransformFields(spec.transforms(i))) {
      if (FindField(info, name) == nullptr) {
        return NoSuchField(absl::StrCat("transforms[", i, "]"), name, info);
      }
    }
    WriteDefaults(*spec.mutable_transforms(i));
  }
  for (int i = 0; i < spec.outputs_size(); ++i) {
    const std::string& name = spec.outputs(i).field();
    if (FindField(info, name) == nullptr) {
      return NoSuchField(absl::StrCat("outputs[", i, "]"), name, info);
    }
  }
  MR_RETURN_IF_ERROR(CheckRoles(info, spec));
  MR_RETURN_IF_ERROR(ResolveOperators(info, operators, source, spec));
  MR_RETURN_IF_ERROR(WriteOutputs(info, spec));
  for (int i = 0; i < spec.transforms_size(); ++i) {
    if (!spec.transforms(i).has_cut_mix()) continue;
    MR_RETURN_IF_ERROR(CutMixSize(spec, info, i).status());
  }
  return absl::OkStatus();
}

void WriteSourceDefaults(PipelineSpec& spec) {
  if (spec.sources_size() == 1) {
    spec.mutable_sources(0)->set_weight(1);  // ignored with one source
    spec.clear_concatenate();
  }
  for (Source& source : *spec.mutable_sources()) {
    if (!source.has_weight() && !spec.concatenate()) source.set_weight(1);
    if (!source.has_subset()) continue;
    Subset& subset = *source.mutable_subset();
    subset.set_to(SubsetEnd(subset));
    if (subset.unit() == 1) subset.clear_unit();
  }
}

absl::StatusOr<PipelineSpec> Resolve(const PipelineSpec& spec,
                                     const DatasetInfos& datasets,
                                     const OperatorCatalog* operators) {
  MR_RETURN_IF_ERROR(CheckSpec(spec));
  std::vector<const DatasetInfo*> infos;
  for (const Source& source : spec.sources()) {
    const auto at = [&source](const absl::Status& status) {
      ErrorDetail detail = MakeErrorDetail("plan");
      detail.set_dataset(source.dataset());
      return WithErrorDetail(status, detail);
    };
    const auto info = FindDataset(source.dataset(), datasets);
    if (!info.ok()) return at(info.status());
    if ((*info)->samples() < 1) {
      return at(absl::InvalidArgumentError(absl::StrCat(
          "dataset ", (*info)->name(), " contains no samples: pack it again")));
    }
    infos.push_back(*info);
  }
  PipelineSpec resolved = spec;
  resolved.set_spec_version(kSpecVersion);
  if (!spec.preset().empty()) {
    MR_RETURN_IF_ERROR(ExpandPreset(*infos[0], resolved));
    // The rules of the roles apply to the preset's transforms, too.
    MR_RETURN_IF_ERROR(CheckSpec(resolved));
  }
  WriteSourceDefaults(resolved);
  Shuffle& shuffle = *resolved.mutable_shuffle();
  if (shuffle.mode() == Shuffle::BLOCK) {
    if (!shuffle.has_block_size()) shuffle.set_block_size(kDefaultBlockSize);
    if (!shuffle.has_window_blocks()) {
      shuffle.set_window_blocks(kDefaultWindowBlocks);
    }
  }
  resolved.mutable_bad_samples();
  const PipelineSpec unresolved = resolved;
  MR_RETURN_IF_ERROR(ResolveAgainst(*infos[0], operators, 0, resolved));
  for (size_t i = 1; i < infos.size(); ++i) {
    // Resolved as if it was the only source; both results must be equal.
    PipelineSpec alone = unresolved;
    const int source = static_cast<int>(i);
    absl::Status same = ResolveAgainst(*infos[i], operators, source, alone);
    if (same.ok()) {
      same = CheckSameTensors(resolved, *infos[0], alone, *infos[i], source);
    } else if (!absl::StartsWith(same.message(), "sources[")) {
      same = absl::Status(same.code(),
                          absl::StrCat("sources[", source, "], dataset ",
                                       infos[i]->name(), ": ", same.message()));
    }
    if (!same.ok()) {
      ErrorDetail detail = MakeErrorDetail("plan");
      detail.set_dataset(resolved.sources(source).dataset());
      return WithErrorDetail(std::move(same), detail);
    }
    *resolved.mutable_sources(source) = alone.sources(source);
  }
  return resolved;
}

}  // namespace

absl::StatusOr<PipelineSpec> ResolveSpec(const PipelineSpec& spec,
                                         const DatasetInfos& datasets,
                                         const OperatorCatalog* operators) {
  absl::StatusOr<PipelineSpec> resolved = Resolve(spec, datasets, operators);
  if (resolved.ok()) return resolved;
  ErrorDetail detail = MakeErrorDetail("plan");
  if (spec.sources_size() > 0) detail.set_dataset(spec.sources(0).dataset());
  return WithErrorDetail(resolved.status(), detail);
}

}  // namespace millrace::plan
