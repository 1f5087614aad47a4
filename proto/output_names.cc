#include "proto/output_names.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace {

absl::Status SelectOutputs(absl::string_view names, PipelineSpec& spec) {
  if (names.empty()) return absl::OkStatus();
  const auto wrong = [names](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--outputs=", names, " ", what,
                     ": write field names separated by commas, for example "
                     "--outputs=image,label"));
  };
  google::protobuf::RepeatedPtrField<Output> chosen;
  for (const absl::string_view part : absl::StrSplit(names, ',')) {
    const std::string field(absl::StripAsciiWhitespace(part));
    if (field.empty()) return wrong("has an empty name");
    for (const Output& before : chosen) {
      if (before.field() == field) {
        return wrong(absl::StrCat("names ", field, " twice"));
      }
    }
    Output& output = *chosen.Add();
    output.set_field(field);
    for (const Output& listed : spec.outputs()) {
      if (listed.field() == field) output = listed;
    }
  }
  *spec.mutable_outputs() = std::move(chosen);
  return absl::OkStatus();
}

}  // namespace millrace
