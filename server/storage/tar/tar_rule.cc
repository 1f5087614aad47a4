#include "server/storage/tar/tar_rule.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/utf8.h"
#include "proto/dtype.h"
#include "server/storage/extents/memory_window.h"
#include "server/storage/sample_check.h"
#include "server/storage/tar/npy_header.h"
#include "server/storage/tar/tar_walker.h"

namespace millrace::storage {
namespace {

constexpr uint32_t kVersion = 1;
// A bit of a number for each.
constexpr int kMaxFields = 64;

constexpr absl::string_view kImages[] = {"jpeg", "jpg", "png", "webp"};
// As the webdataset library decodes them.
constexpr absl::string_view kIntegers[] = {"class", "cls",   "cls2", "count",
                                           "id",    "index", "inx"};
// The label is the first of these.
constexpr absl::string_view kLabels[] = {"cls", "class", "index"};

template <size_t n>
bool IsOneOf(absl::string_view word, const absl::string_view (&words)[n]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// "png" of "seg.png".
absl::string_view LastPart(absl::string_view extension) {
  const size_t dot = extension.rfind('.');
  return dot == extension.npos ? extension : extension.substr(dot + 1);
}

absl::Status BadOption(absl::string_view value, absl::string_view why) {
  return UsageError(absl::InvalidArgumentError(absl::StrCat(
      "option fields=", value, " is wrong: ", why,
      "; write NAME:EXTENSION, with commas between fields, and more extensions "
      "after semicolons (fields=image:jpg;png,label:cls)")));
}

bool EqualsIgnoringCase(absl::string_view text, const std::string& lower) {
  return text.size() == lower.size() && absl::EqualsIgnoreCase(text, lower);
}

// Adds a field and its member; `first`: the member of the first sample.
absl::Status AddField(const std::string& name,
                      const std::vector<std::string>& extensions, bool as_bytes,
                      const TarMember& first, TarRule* rule) {
  Field& field = *rule->mutable_schema()->add_fields();
  field.set_name(name);
  TarRuleMember& member = *rule->add_members();
  for (const std::string& extension : extensions) {
    member.add_extensions(extension);
  }
  const absl::string_view type = LastPart(first.extension);
  field.set_kind(FIELD_KIND_RAGGED);
  field.set_dtype(DTYPE_UINT8);
  if (as_bytes) return absl::OkStatus();
  if (IsOneOf(type, kImages)) {
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
    field.clear_dtype();
  } else if (IsOneOf(type, kIntegers)) {
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(DTYPE_INT64);
    member.set_content(TarRuleMember::CONTENT_INTEGER);
  } else if (type == "npy") {
    const absl::StatusOr<NpyHeader> header =
        ParseNpyHeader({reinterpret_cast<const uint8_t*>(first.bytes.data()),
                        first.bytes.size()});
    // What is damaged here, or not supported, decides about all samples.
    if (absl::IsDataLoss(header.status())) {
      return absl::DataLossError(
          absl::StrCat("the member .", first.extension, " of the first sample ",
                       header.status().message(),
                       ": repair it, or read it as bytes (?fields=", name, ":",
                       first.extension, ":bytes, with the other fields)"));
    }
    if (!header.ok()) {
      MR_LOG(WARNING) << "field '" << name
                      << "' is served as bytes, because the "
                      << "member ." << first.extension
                      << " of the first sample " << header.status().message();
      return absl::OkStatus();
    }
    Field tensor = field;
    tensor.set_kind(FIELD_KIND_TENSOR);
    tensor.set_dtype(header->dtype);
    for (const int64_t extent : header->shape) tensor.add_shape(extent);
    Schema schema;
    *schema.add_fields() = tensor;
    // An array without elements, or with too many, is no tensor.
    if (!SampleCheck::Create(schema).ok()) return absl::OkStatus();
    field = tensor;
    member.set_content(TarRuleMember::CONTENT_NPY);
  }
  return absl::OkStatus();
}

struct NamedField {
  std::string name;
  std::vector<std::string> extensions;
  bool as_bytes = false;
};

absl::StatusOr<std::vector<NamedField>> ParseFields(const std::string& value) {
  std::vector<NamedField> fields;
  for (const absl::string_view text : absl::StrSplit(value, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    if (parts.size() < 2 || parts.size() > 3 || parts[0].empty() ||
        parts[1].empty()) {
      return BadOption(value, absl::StrCat("'", text, "' is no field"));
    }
    NamedField field;
    field.name = parts[0];
    if (parts.size() == 3) {
      if (parts[2] != "bytes") {
        return BadOption(value, absl::StrCat("'", parts[2],
                                             "' is unknown; only `:bytes` may "
                                             "follow the extensions"));
      }
      field.as_bytes = true;
    }
    for (const absl::string_view extension : absl::StrSplit(parts[1], ';')) {
      if (extension.empty()) {
        return BadOption(value, "an extension is empty");
      }
      field.extensions.push_back(absl::AsciiStrToLower(extension));
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string ListOf(absl::Span<const TarMember> first) {
  return absl::StrJoin(first, ", ",
                       [](std::string* out, const TarMember& member) {
                         absl::StrAppend(out, ".", member.extension);
                       });
}

const TarMember* FindMember(absl::Span<const TarMember> first,
                            const std::vector<std::string>& extensions) {
  for (const TarMember& member : first) {
    if (std::find(extensions.begin(), extensions.end(), member.extension) !=
        extensions.end()) {
      return &member;
    }
  }
  return nullptr;
}

// The fields of a sample without an option.
std::vector<NamedField> DefaultFields(absl::Span<const TarMember> first) {
  std::vector<NamedField> image;
  std::vector<NamedField> label;
  std::vector<NamedField> others;
  int images = 0;
  std::string label_extension;
  for (const TarMember& member : first) {
    images += IsOneOf(LastPart(member.extension), kImages);
  }
  for (const absl::string_view name : kLabels) {
    if (label_extension.empty() && FindMember(first, {std::string(name)})) {
      label_extension = std::string(name);
    }
  }
  for (const TarMember& member : first) {
    if (images == 1 && IsOneOf(LastPart(member.extension), kImages)) {
      NamedField field{.name = "image", .extensions = {member.extension}};
      // Samples may have images of several types.
      if (IsOneOf(member.extension, kImages)) {
        field.extensions = {std::begin(kImages), std::end(kImages)};
      }
      image.push_back(std::move(field));
    } else if (member.extension == label_extension) {
      label.push_back({.name = "label", .extensions = {member.extension}});
    } else {
      others.push_back(
          {.name = member.extension, .extensions = {member.extension}});
    }
  }
  std::sort(
      others.begin(), others.end(),
      [](const NamedField& a, const NamedField& b) { return a.name < b.name; });
  std::vector<NamedField> all = std::move(image);
  all.insert(all.end(), label.begin(), label.end());
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

bool ParseTarInteger(absl::Span<const uint8_t> text, int64_t* value) {
  return absl::SimpleAtoi(
      absl::string_view(reinterpret_cast<const char*>(text.data()),
                        text.size()),
      value);
}

absl::StatusOr<std::unique_ptr<TarFieldRule>> TarFieldRule::Create(
    TarRule rule) {
  const auto damaged = [] {
    return absl::DataLossError("the rule of a tar dataset is damaged");
  };
  const int fields = rule.schema().fields_size();
  if (rule.version() != kVersion || fields > kMaxFields ||
      rule.members_size() != fields || rule.class_field() < -1 ||
      rule.class_field() >= fields ||
      !SampleCheck::Create(rule.schema()).ok()) {
    return damaged();
  }
  for (int i = 0; i < fields; ++i) {
    const Field& field = rule.schema().fields(i);
    const TarRuleMember& member = rule.members(i);
    const bool integer = member.content() == TarRuleMember::CONTENT_INTEGER;
    const bool scalar = field.kind() == FIELD_KIND_TENSOR &&
                        field.dtype() == DTYPE_INT64 && field.shape_size() == 0;
    if (member.extensions_size() == 0 || (integer && !scalar) ||
        (i == rule.class_field() && !integer) ||
        (member.content() == TarRuleMember::CONTENT_NPY &&
         field.kind() != FIELD_KIND_TENSOR) ||
        (member.content() == TarRuleMember::CONTENT_BYTES &&
         field.kind() == FIELD_KIND_TENSOR) ||
        !TarRuleMember::Content_IsValid(member.content())) {
      return damaged();
    }
  }
  return std::unique_ptr<TarFieldRule>(new TarFieldRule(std::move(rule)));
}

int TarFieldRule::FieldOf(absl::string_view extension) const {
  for (int i = 0; i < rule_.members_size(); ++i) {
    for (const std::string& known : rule_.members(i).extensions()) {
      if (EqualsIgnoringCase(extension, known)) return i;
    }
  }
  return -1;
}

absl::Status TarFieldRule::CheckMembers(const std::vector<bool>& seen,
                                        absl::string_view others) const {
  constexpr absl::string_view kAdvice =
      "; all samples must have the same members, or the option fields names "
      "the members to read (?fields=image:jpg;png,label:cls)";
  for (int i = 0; i < fields(); ++i) {
    if (seen[i]) continue;
    return absl::DataLossError(absl::StrCat(
        "the member .", absl::StrJoin(rule_.members(i).extensions(), " or ."),
        " (field '", schema().fields(i).name(), "') is missing", kAdvice));
  }
  if (!others.empty() && !rule_.others_allowed()) {
    return absl::DataLossError(
        absl::StrCat("the member .", absl::CHexEscape(others),
                     " is not among those of the first sample", kAdvice));
  }
  return absl::OkStatus();
}

absl::Status TarFieldRule::Wrong(int i, absl::string_view why) const {
  return absl::DataLossError(
      absl::StrCat("field '", schema().fields(i).name(), "' ", why));
}

absl::Status TarFieldRule::Convert(int i, absl::Span<const uint8_t> bytes,
                                   RecordFields* fields) const {
  switch (rule_.members(i).content()) {
    case TarRuleMember::CONTENT_INTEGER: {
      int64_t value;
      if (!ParseTarInteger(bytes, &value)) {
        const absl::string_view text(
            reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return Wrong(i,
                     absl::StrCat("is '", absl::CHexEscape(text.substr(0, 40)),
                                  "' and no whole number"));
      }
      std::memcpy(fields->Make(i, sizeof(value)), &value, sizeof(value));
      return absl::OkStatus();
    }
    case TarRuleMember::CONTENT_NPY: {
      const absl::StatusOr<NpyHeader> header = ParseNpyHeader(bytes);
      if (!header.ok()) return Wrong(i, header.status().message());
      const Field& field = schema().fields(i);
      if (header->dtype != field.dtype() ||
          !std::equal(header->shape.begin(), header->shape.end(),
                      field.shape().begin(), field.shape().end())) {
        return Wrong(
            i,
            absl::StrCat("is ", DTypeName(header->dtype), " [",
                         absl::StrJoin(header->shape, ", "),
                         "] and in the first sample ", DTypeName(field.dtype()),
                         " [", absl::StrJoin(field.shape(), ", "),
                         "]: read it as bytes (?fields=", field.name(), ":",
                         rule_.members(i).extensions(0),
                         ":bytes, with the other fields)"));
      }
      fields->Set(i, bytes.subspan(header->data_offset));
      return absl::OkStatus();
    }
    default:
      fields->Set(i, bytes);
      return absl::OkStatus();
  }
}

absl::Status TarFieldRule::Split(absl::Span<const uint8_t> record,
                                 const std::vector<bool>& used,
                                 RecordFields* fields) const {
  MemoryWindow window(record);
  TarWalker walker(window, TarWalker::End::kOpen);
  // A bit for each field.
  uint64_t seen = 0;
  for (;;) {
    MR_ASSIGN_OR_RETURN(const bool more, walker.Next());
    if (!more) break;
    absl::string_view key;
    absl::string_view extension;
    if (!SplitMemberName(walker.name(), &key, &extension)) continue;
    const int i = FieldOf(extension);
    if (i < 0) continue;
    if ((seen >> i & 1) != 0) return Wrong(i, "has two members in the sample");
    seen |= uint64_t{1} << i;
    if (!used.empty() && !used[i]) continue;
    MR_RETURN_IF_ERROR(Convert(
        i, record.subspan(walker.data_offset(), walker.data_bytes()), fields));
  }
  for (int i = 0; i < this->fields(); ++i) {
    if ((seen >> i & 1) == 0 && (used.empty() || used[i])) {
      return Wrong(i, "has no member in the sample");
    }
  }
  return absl::OkStatus();
}

std::string TarFieldRule::NameOf(absl::Span<const uint8_t> record) const {
  MemoryWindow window(record);
  TarWalker walker(window, TarWalker::End::kOpen);
  const absl::StatusOr<bool> more = walker.Next();
  absl::string_view key;
  absl::string_view extension;
  if (!more.ok() || !*more ||
      !SplitMemberName(walker.name(), &key, &extension)) {
    return "";
  }
  return absl::CHexEscape(absl::StrCat(walker.folder(), key));
}

absl::StatusOr<std::unique_ptr<TarFieldRule>> MakeTarRule(
    const FormatOptions& options, absl::Span<const TarMember> first) {
  TarRule rule;
  rule.set_version(kVersion);
  rule.set_class_field(-1);
  const auto option = options.find("fields");
  std::vector<NamedField> named;
  if (option == options.end()) {
    named = DefaultFields(first);
  } else {
    rule.set_others_allowed(true);
    MR_ASSIGN_OR_RETURN(named, ParseFields(option->second));
  }
  std::set<std::string> names;
  std::set<std::string> extensions;
  for (const NamedField& field : named) {
    const TarMember* const member = FindMember(first, field.extensions);
    if (member == nullptr) {
      return BadOption(option->second,
                       absl::StrCat("the first sample has no member .",
                                    absl::StrJoin(field.extensions, " or ."),
                                    "; its members are ", ListOf(first)));
    }
    if (!IsUtf8(field.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the extension ", absl::CHexEscape(field.name),
          " is no UTF-8, and fields are named by extensions: name the fields "
          "by the option fields (?fields=image:jpg;png,label:cls)"));
    }
    if (!names.insert(field.name).second) {
      return BadOption(
          option == options.end() ? "" : option->second,
          absl::StrCat("the name '", field.name, "' appears twice"));
    }
    for (const std::string& extension : field.extensions) {
      if (!extensions.insert(extension).second) {
        return BadOption(
            option == options.end() ? "" : option->second,
            absl::StrCat("the extension .", extension, " appears twice"));
      }
    }
    MR_RETURN_IF_ERROR(
        AddField(field.name, field.extensions, field.as_bytes, *member, &rule));
    const int i = rule.members_size() - 1;
    if (field.name == "label" &&
        rule.members(i).content() == TarRuleMember::CONTENT_INTEGER) {
      rule.set_class_field(i);
    }
  }
  if (rule.members_size() > kMaxFields) {
    return absl::InvalidArgumentError(absl::StrCat(
        "samples have ", rule.members_size(), " members; the maximum is ",
        kMaxFields, ": name the fields by the option fields"));
  }
  return TarFieldRule::Create(std::move(rule));
}

}  // namespace millrace::storage
