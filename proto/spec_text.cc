#include "proto/spec_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/program/nearest_word.h"
#include "common/utf8.h"
#include "proto/spec_statements.h"

namespace millrace {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr size_t kMaxSpecTextBytes = 1 << 20;
// Of a word whose nearest one is looked for, which takes its length times
// theirs. No name of a value is longer.
constexpr size_t kMaxTypedBytes = 100;

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

std::vector<SpecMistake> ParseOnce(absl::string_view text, PipelineSpec& spec,
                                   TextFormat::ParseInfoTree* locations) {
  std::vector<SpecMistake> mistakes;
  Collector collector(mistakes);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  if (locations != nullptr) parser.WriteLocationsTo(locations);
  google::protobuf::io::ArrayInputStream input(text.data(),
                                               static_cast<int>(text.size()));
  if (!parser.Parse(&input, &spec) && mistakes.empty()) {
    mistakes.push_back(
        {0, 0, "the text is not a pipeline spec in text format"});
  }
  return mistakes;
}

// The tokenizer's columns count a tab up to the next multiple of 8.
int ColumnAfter(char c, int column) {
  return c == '\t' ? (column - 1) / 8 * 8 + 9 : column + 1;
}

size_t OffsetOf(absl::string_view text, const SpecMistake& mistake) {
  size_t at = 0;
  for (int line = 1; line < mistake.line && at < text.size(); ++at) {
    if (text[at] == '\n') ++line;
  }
  for (int column = 1; column < mistake.column && at < text.size(); ++at) {
    if (text[at] == '\n') break;
    column = ColumnAfter(text[at], column);
  }
  return at;
}

void SetPlace(absl::string_view text, size_t offset, SpecMistake& mistake) {
  mistake.line = 1;
  mistake.column = 1;
  for (size_t at = 0; at < offset; ++at) {
    if (text[at] == '\n') {
      ++mistake.line;
      mistake.column = 1;
    } else {
      mistake.column = ColumnAfter(text[at], mistake.column);
    }
  }
}

// The parser has gone on when it sees these: they are of the value before.
bool IsOfTheValueBefore(const SpecMistake& mistake) {
  return absl::StartsWith(mistake.message, "Unknown enumeration value") ||
         absl::StartsWith(mistake.message, "Invalid value for boolean");
}

bool IsOfAnEnum(const SpecMistake& mistake) {
  return absl::StartsWith(mistake.message, "Unknown enumeration value") ||
         absl::StartsWith(mistake.message, "Expected integer or identifier");
}

// The enumeration of the field that `wanted` sets. Null: the field has another
// type, or none of this name is in a message here.
const EnumDescriptor* EnumOf(absl::string_view text,
                             const std::vector<SpecStatement>& statements,
                             const SpecStatement& wanted,
                             const Descriptor& message) {
  for (const SpecStatement& statement : statements) {
    if (wanted.begin < statement.begin || wanted.begin >= statement.end) {
      continue;
    }
    size_t end = statement.begin;
    while (end < statement.end &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text[end])) ||
            text[end] == '_')) {
      ++end;
    }
    const FieldDescriptor* const field = message.FindFieldByName(
        std::string(text.substr(statement.begin, end - statement.begin)));
    if (field == nullptr) return nullptr;
    if (&statement == &wanted) return field->enum_type();
    return field->message_type() == nullptr
               ? nullptr
               : EnumOf(text, statement.inner, wanted, *field->message_type());
  }
  return nullptr;
}

// The words without the beginning up to an underscore that all of them share:
// BILINEAR of INTERPOLATION_BILINEAR.
std::vector<absl::string_view> OwnParts(std::vector<absl::string_view> words) {
  while (!words.empty()) {
    const absl::string_view first = words.front();
    const size_t underscore = first.find('_');
    if (underscore == first.npos) return words;
    const absl::string_view shared = first.substr(0, underscore + 1);
    if (!std::all_of(words.begin(), words.end(), [shared](auto word) {
          return absl::StartsWith(word, shared);
        })) {
      return words;
    }
    for (absl::string_view& word : words) word.remove_prefix(shared.size());
  }
  return words;
}

// Adds the valid values to a mistake in one of `values`.
void NameValues(const EnumDescriptor& values, SpecMistake& mistake) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < values.value_count(); ++i) {
    names.push_back(values.value(i)->name());
  }
  // The typed word is the first in quotes.
  const std::vector<absl::string_view> parts =
      absl::StrSplit(mistake.message, '"');
  const absl::string_view typed =
      parts.size() > 1 ? parts[1].substr(0, kMaxTypedBytes) : "";
  std::string near = program::DidYouMean(typed, names, "");
  if (near.empty()) {
    const std::vector<absl::string_view> own = OwnParts(names);
    const auto at =
        std::find(own.begin(), own.end(), program::NearestWord(typed, own));
    if (at != own.end()) {
      near = absl::StrCat("; did you mean ", names[at - own.begin()], "?");
    }
  }
  absl::string_view message = mistake.message;
  absl::ConsumeSuffix(&message, ".");
  mistake.message = absl::StrCat(message, "; the valid values are ",
                                 absl::StrJoin(names, ", "), near);
}

// The parser stops at a mistake. What holds it is blanked out, and the rest is
// parsed again.
std::vector<SpecMistake> FindFurther(absl::string_view text,
                                     std::vector<SpecMistake> first) {
  std::string rest(text);
  std::vector<SpecMistake> found;
  std::vector<SpecMistake> mistakes = std::move(first);
  while (!mistakes.empty()) {
    SpecMistake mistake = std::move(mistakes.front());
    if (mistake.line == 0) {
      found.push_back(std::move(mistake));
      break;
    }
    const std::vector<SpecStatement> statements = FindStatements(rest);
    size_t begin = OffsetOf(rest, mistake);
    size_t end = std::min(begin + 1, rest.size());
    const bool before = IsOfTheValueBefore(mistake);
    const SpecStatement* statement = InnermostAt(statements, begin);
    const SpecStatement* last = LastBefore(statements, begin);
    // Or it has no value, and the parser met the next name.
    const bool no_value = last != nullptr && rest[last->end - 1] == ':';
    if (before || no_value) statement = last;
    if (statement != nullptr) {
      begin = statement->begin;
      end = statement->end;
      if (before) SetPlace(rest, begin, mistake);
    }
    if (found.size() == kMaxFormMistakes) {
      found.push_back(
          {0, 0, "the file has more mistakes: correct these first"});
      break;
    }
    if (statement != nullptr && IsOfAnEnum(mistake)) {
      const EnumDescriptor* const values =
          EnumOf(rest, statements, *statement, *PipelineSpec::descriptor());
      if (values != nullptr) NameValues(*values, mistake);
    }
    found.push_back(std::move(mistake));
    bool blanked = false;
    for (size_t at = begin; at < end; ++at) {
      if (absl::ascii_isspace(static_cast<unsigned char>(rest[at]))) continue;
      rest[at] = ' ';
      blanked = true;
    }
    if (!blanked) break;  // at the end: something is missing there
    PipelineSpec unused;
    mistakes = ParseOnce(rest, unused, nullptr);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const SpecMistake& a, const SpecMistake& b) {
                     // The word about the rest, of no line, stays last.
                     if (a.line == 0 || b.line == 0) return a.line > b.line;
                     return std::tie(a.line, a.column) <
                            std::tie(b.line, b.column);
                   });
  return found;
}

}  // namespace

std::vector<SpecMistake> ParseSpecTextWithMistakes(
    absl::string_view text, PipelineSpec& spec,
    google::protobuf::TextFormat::ParseInfoTree* locations) {
  if (text.size() > kMaxSpecTextBytes) {
    return {{0, 0,
             absl::StrCat("the pipeline file has ", text.size(),
                          " bytes; the maximum is ", kMaxSpecTextBytes)}};
  }
  TextFormat::ParseInfoTree own_locations;
  if (locations == nullptr) locations = &own_locations;
  std::vector<SpecMistake> mistakes = ParseOnce(text, spec, locations);
  if (!mistakes.empty()) return FindFurther(text, std::move(mistakes));
  if (FindStatements(text).empty()) {
    return {{0, 0,
             "the file is empty: write a preset or transforms into it "
             "(docs/transforms.md)"}};
  }
  CheckStrings(spec, locations, mistakes);
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
