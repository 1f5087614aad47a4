#include "server/plan/same_tensors.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/plan/field_trace.h"
#include "server/plan/find_field.h"

namespace millrace::plan {
namespace {

const Field& FieldOf(const DatasetInfo& info, const std::string& name) {
  const Field* const field = FindField(info, name);
  MR_CHECK(field != nullptr) << "a resolved spec names field " << name;
  return *field;
}

std::vector<std::string> OutputFields(const PipelineSpec& spec) {
  std::vector<std::string> fields;
  for (const Output& output : spec.outputs()) fields.push_back(output.field());
  std::sort(fields.begin(), fields.end());
  return fields;
}

std::string ClassCount(int64_t classes) {
  return classes == 0 ? "without classes"
                      : absl::StrCat("of ", classes,
                                     classes == 1 ? " class" : " classes");
}

// The type and shape of a sample in the trainer.
std::string Format(const FieldTrace& trace) {
  return absl::StrCat(DTypeName(trace.device_dtype), " [",
                      absl::StrJoin(*trace.device_shape, ", "), "]");
}

class Comparison {
 public:
  Comparison(const DatasetInfo& first, const DatasetInfo& other, int source)
      : first_(first), other_(other), source_(source) {}

  absl::Status Outputs(const PipelineSpec& first, const PipelineSpec& other) {
    const std::vector<std::string> a = OutputFields(first);
    const std::vector<std::string> b = OutputFields(other);
    if (a == b) return absl::OkStatus();
    return Differ("the outputs are ", absl::StrJoin(b, ", "),
                  absl::StrJoin(a, ", "),
                  "list the outputs that all sources have");
  }

  absl::Status Tensors(const PipelineSpec& first, const PipelineSpec& other,
                       const std::string& name) {
    const Field& a = FieldOf(first_, name);
    const Field& b = FieldOf(other_, name);
    if (a.num_classes() != b.num_classes()) {
      return Differ(absl::StrCat("field ", name, " is "),
                    ClassCount(b.num_classes()), ClassCount(a.num_classes()),
                    "pack the datasets with one list of classes");
    }
    if (a.class_names_size() > 0 && b.class_names_size() > 0) {
      for (int i = 0; i < a.class_names_size(); ++i) {
        if (i < b.class_names_size() && a.class_names(i) == b.class_names(i)) {
          continue;
        }
        return Differ(absl::StrCat("class ", i, " of field ", name, " is "),
                      i < b.class_names_size() ? b.class_names(i)
                                               : std::string("no name"),
                      a.class_names(i),
                      "pack the datasets with one list of classes");
      }
    }
    MR_ASSIGN_OR_RETURN(const FieldTrace mine, TraceField(first, a));
    MR_ASSIGN_OR_RETURN(const FieldTrace yours, TraceField(other, b));
    MR_CHECK(mine.shape && yours.shape) << name;
    if (mine.dtype == yours.dtype && mine.shape == yours.shape &&
        mine.device_dtype == yours.device_dtype &&
        mine.device_shape == yours.device_shape) {
      return absl::OkStatus();
    }
    return Differ(absl::StrCat("field ", name, " is "), Format(yours),
                  Format(mine),
                  "add transforms that convert them to one size and type");
  }

  absl::Status Transforms(const PipelineSpec& first,
                          const PipelineSpec& other) {
    for (int i = 0; i < first.transforms_size(); ++i) {
      if (first.transforms(i).SerializeAsString() ==
          other.transforms(i).SerializeAsString()) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "sources[", source_, "]: transforms[", i,
          "] produces one tensor from dataset ", other_.name(),
          " and a different tensor from dataset ", first_.name(),
          " (sources[0]); sources that are mixed must give the same tensors"));
    }
    return absl::OkStatus();
  }

 private:
  // `what`: the begin of the sentence, "field x is "; `other` and `first`: its
  // values in the two sources.
  absl::Status Differ(absl::string_view what, absl::string_view other,
                      absl::string_view first, absl::string_view advice) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sources[", source_, "]: ", what, other, " in dataset ", other_.name(),
        " and ", first, " in dataset ", first_.name(),
        " (sources[0]); sources that are mixed must give the same tensors: ",
        advice));
  }

  const DatasetInfo& first_;
  const DatasetInfo& other_;
  const int source_;
};

}  // namespace

absl::Status CheckSameTensors(const PipelineSpec& first,
                              const DatasetInfo& first_info,
                              const PipelineSpec& other,
                              const DatasetInfo& other_info, int source) {
  Comparison comparison(first_info, other_info, source);
  MR_RETURN_IF_ERROR(comparison.Outputs(first, other));
  for (const Output& output : first.outputs()) {
    MR_RETURN_IF_ERROR(comparison.Tensors(first, other, output.field()));
  }
  return comparison.Transforms(first, other);
}

}  // namespace millrace::plan
