#include "client/audit/spec_difference.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::audit {
namespace {

using google::protobuf::FieldDescriptor;

constexpr size_t kMaxText = 160;

std::string ValueText(const PipelineSpec& spec, const FieldDescriptor* field,
                      int index) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintFieldValueToString(spec, field, index, &text);
  absl::StripAsciiWhitespace(&text);
  return text;
}

// All elements of a list; one value, or none, of another field.
std::vector<std::string> ValuesOf(const PipelineSpec& spec,
                                  const FieldDescriptor* field) {
  const auto* const reflection = spec.GetReflection();
  std::vector<std::string> values;
  if (field->is_repeated()) {
    for (int i = 0; i < reflection->FieldSize(spec, field); ++i) {
      values.push_back(ValueText(spec, field, i));
    }
  } else if (!field->has_presence() || reflection->HasField(spec, field)) {
    values.push_back(ValueText(spec, field, -1));
  }
  return values;
}

// The elements of `all` that `others` lacks.
std::string Without(const std::vector<std::string>& all,
                    std::vector<std::string> others) {
  std::vector<std::string> rest;
  for (const std::string& value : all) {
    const auto found = std::find(others.begin(), others.end(), value);
    if (found == others.end()) {
      rest.push_back(value);
    } else {
      others.erase(found);
    }
  }
  std::string text = rest.empty() ? "none" : absl::StrJoin(rest, ", ");
  if (text.size() > kMaxText) {
    text.resize(kMaxText);
    text.append("...");
  }
  return text;
}

}  // namespace

std::vector<FieldDifference> DifferencesOf(const PipelineSpec& before,
                                           const PipelineSpec& after) {
  std::vector<FieldDifference> differences;
  const auto* const descriptor = PipelineSpec::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    if (field->number() == PipelineSpec::kCompressionFieldNumber) continue;
    const std::vector<std::string> old_values = ValuesOf(before, field);
    const std::vector<std::string> new_values = ValuesOf(after, field);
    if (old_values == new_values) continue;
    FieldDifference& difference = differences.emplace_back();
    difference.name = field->name();
    difference.before = Without(old_values, new_values);
    difference.after = Without(new_values, old_values);
    if (difference.before == difference.after) {
      difference.after = "another order";
    }
  }
  return differences;
}

std::string DifferenceText(const std::vector<FieldDifference>& fields,
                           const std::string& where_before,
                           const std::string& where_after) {
  return absl::StrJoin(
      fields, ", ", [&](std::string* out, const FieldDifference& field) {
        absl::StrAppend(out, field.name, " (", field.before, " ", where_before,
                        ", ", field.after, " ", where_after, ")");
      });
}

}  // namespace millrace::audit
