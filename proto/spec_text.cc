#include "proto/spec_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/utf8.h"

namespace millrace {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr size_t kMaxSpecTextBytes = 1 << 20;

class Collector : public google::protobuf::io::ErrorCollector {
 public:
  explicit Collector(std::vector<SpecMistake>& mistakes)
      : mistakes_(mistakes) {}

  // The tokenizer counts from 0.
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    mistakes_.push_back({line + 1, column + 1, message});
  }
  void AddWarning(int line, google::protobuf::io::ColumnNumber column,
                  const std::string& message) override {
    AddError(line, column, message);
  }

 private:
  std::vector<SpecMistake>& mistakes_;
};

// An escape can write any byte, and what is no UTF-8 does not go over the wire.
void CheckStrings(const google::protobuf::Message& message,
                  const TextFormat::ParseInfoTree* locations,
                  std::vector<SpecMistake>& mistakes) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_message =
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && field->type() != FieldDescriptor::TYPE_STRING) continue;
    const int count =
        field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      if (is_message) {
        CheckStrings(
            index < 0 ? reflection.GetMessage(message, field)
                      : reflection.GetRepeatedMessage(message, field, i),
            locations == nullptr ? nullptr
                                 : locations->GetTreeForNested(field, index),
            mistakes);
        continue;
      }
      std::string scratch;
      const std::string& text =
          index < 0 ? reflection.GetStringReference(message, field, &scratch)
                    : reflection.GetRepeatedStringReference(message, field, i,
                                                            &scratch);
      if (IsUtf8(text)) continue;
      TextFormat::ParseLocation at;  // -1: unknown
      if (locations != nullptr) at = locations->GetLocation(field, index);
      mistakes.push_back({at.line + 1, at.column + 1,
                          absl::StrCat(field->name(), " is not UTF-8")});
    }
  }
}

}  // namespace

std::vector<SpecMistake> ParseSpecTextWithMistakes(
    absl::string_view text, PipelineSpec& spec,
    google::protobuf::TextFormat::ParseInfoTree* locations) {
  std::vector<SpecMistake> mistakes;
  if (text.size() > kMaxSpecTextBytes) {
    mistakes.push_back({0, 0,
                        absl::StrCat("a pipeline file of ", text.size(),
                                     " bytes: at most ", kMaxSpecTextBytes)});
    return mistakes;
  }
  Collector collector(mistakes);
  TextFormat::Parser parser;
  TextFormat::ParseInfoTree own_locations;
  if (locations == nullptr) locations = &own_locations;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(locations);
  google::protobuf::io::ArrayInputStream input(text.data(),
                                               static_cast<int>(text.size()));
  if (!parser.Parse(&input, &spec) && mistakes.empty()) {
    mistakes.push_back({0, 0, "this is no pipeline spec in text format"});
  }
  if (mistakes.empty()) CheckStrings(spec, locations, mistakes);
  return mistakes;
}

absl::StatusOr<PipelineSpec> ParseSpecText(absl::string_view text,
                                           absl::string_view filename) {
  PipelineSpec spec;
  const std::vector<SpecMistake> mistakes =
      ParseSpecTextWithMistakes(text, spec);
  if (mistakes.empty()) return spec;
  const SpecMistake& first = mistakes.front();
  return absl::InvalidArgumentError(
      first.line == 0 ? absl::StrCat(filename, ": ", first.message)
                      : absl::StrCat(filename, ":", first.line, ":",
                                     first.column, ": ", first.message));
}

}  // namespace millrace
