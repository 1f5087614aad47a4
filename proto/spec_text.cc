#include "proto/spec_text.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

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
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  if (locations != nullptr) parser.WriteLocationsTo(locations);
  google::protobuf::io::ArrayInputStream input(text.data(),
                                               static_cast<int>(text.size()));
  if (!parser.Parse(&input, &spec) && mistakes.empty()) {
    mistakes.push_back({0, 0, "this is no pipeline spec in text format"});
  }
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
