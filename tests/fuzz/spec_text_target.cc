// Fuzz target of the spec as people write it: the text parser, and the check
// that gives each mistake its line.

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/logging.h"
#include "proto/spec_text.h"
#include "server/plan/spec_file.h"
#include "tests/fuzz/fuzz_specs.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const int lines =
      1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  for (const SpecMistake& mistake : plan::CheckSpecText(text)) {
    MR_CHECK(mistake.line >= 0 && mistake.line <= lines + 1)
        << "line " << mistake.line << " of " << lines;
    MR_CHECK(!mistake.message.empty());
  }
  PipelineSpec spec;
  const auto mistakes = ParseSpecTextWithMistakes(text, spec);
  MR_CHECK(ParseSpecText(text, "file").ok() == mistakes.empty());
  return mistakes.empty() && FuzzSpec(spec);
}

std::vector<std::string> Seeds() { return FuzzSpecTexts(); }

void Collect(const google::protobuf::Descriptor& message,
             std::set<const google::protobuf::Descriptor*>& seen,
             std::set<std::string>& words) {
  if (!seen.insert(&message).second) return;
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    words.insert(field.name());
    if (field.message_type() != nullptr) {
      Collect(*field.message_type(), seen, words);
    }
    if (field.enum_type() == nullptr) continue;
    for (int v = 0; v < field.enum_type()->value_count(); ++v) {
      words.insert(field.enum_type()->value(v)->name());
    }
  }
}

std::vector<std::string> Words() {
  std::set<const google::protobuf::Descriptor*> seen;
  std::set<std::string> words;
  Collect(*PipelineSpec::descriptor(), seen, words);
  return {words.begin(), words.end()};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds, .words = Words};
  return target;
}

}  // namespace millrace
