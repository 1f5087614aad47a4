#include "server/storage/extents/extent_uri.h"

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/count_text.h"
#include "common/folder.h"
#include "common/program/nearest_word.h"
#include "common/regular_file.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/utf8.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kCommon[] = {"classes", "label_offset",
                                         "num_classes"};

bool IsPair(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) return false;
  const absl::string_view key = text.substr(0, equals);
  return std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

// Where the options begin, behind their '?'; npos: there are none. A '?' of a
// glob is followed by something else.
size_t FindOptions(absl::string_view rest) {
  for (size_t at = rest.find('?'); at != rest.npos;
       at = rest.find('?', at + 1)) {
    const std::vector<absl::string_view> pairs =
        absl::StrSplit(rest.substr(at + 1), '&');
    if (std::all_of(pairs.begin(), pairs.end(), IsPair)) return at + 1;
  }
  return rest.npos;
}

absl::Status Bad(absl::string_view key, absl::string_view value,
                 absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "option ", key, "=", value, " is wrong: expected ", expected));
}

// The absolute path without links, as far as it exists.
std::string AbsolutePath(const std::string& path) {
  if (char* const real = realpath(path.c_str(), nullptr)) {
    std::string found(real);
    free(real);
    return found;
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

// The same, with a link as its last part.
std::string AbsolutePathOfLink(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == path.npos ? path : path.substr(slash + 1);
  // Not of "/data/", "." and "..", which are folders.
  if (name.empty() || name == "." || name == "..") return AbsolutePath(path);
  return JoinPath(
      AbsolutePath(slash == path.npos ? "." : path.substr(0, slash + 1)), name);
}

// The names in a file, one a line.
absl::StatusOr<std::vector<std::string>> ReadClassNames(
    const std::string& file) {
  std::string text;
  MR_RETURN_IF_ERROR(ReadRegularFile(file, &text));
  absl::string_view rest = text;
  absl::ConsumeSuffix(&rest, "\n");
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(rest, '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    const auto bad = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", names.size() + 1, " of ", file, " ", why,
                       "; write the name of one class on each line"));
    };
    if (line.empty()) return bad("is empty");
    if (!IsUtf8(line)) return bad("is no UTF-8");
    names.emplace_back(line);
  }
  return names;
}

}  // namespace

absl::Status CheckOptions(absl::string_view scheme,
                          const FormatOptions& options,
                          absl::Span<const absl::string_view> known) {
  std::vector<absl::string_view> all(known.begin(), known.end());
  all.insert(all.end(), std::begin(kCommon), std::end(kCommon));
  std::sort(all.begin(), all.end());
  for (const auto& [key, value] : options) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat(scheme, ": has no option '", key, "'",
                     program::DidYouMean(key, all, ""), "; its options are ",
                     absl::StrJoin(all, ", "))));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExtentUri> ExtentUri::Parse(absl::string_view scheme,
                                           absl::string_view rest,
                                           bool is_table) {
  ExtentUri uri;
  uri.scheme = std::string(scheme);
  const size_t options = FindOptions(rest);
  const absl::string_view path =
      options == rest.npos ? rest : rest.substr(0, options - 1);
  if (path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the path is empty; write ", scheme, ":PATH"));
  }
  uri.path = is_table ? AbsolutePathOfLink(std::string(path))
                      : AbsolutePath(std::string(path));
  if (options == rest.npos) return uri;
  for (const absl::string_view pair :
       absl::StrSplit(rest.substr(options), '&')) {
    const size_t equals = pair.find('=');
    const std::string key(pair.substr(0, equals));
    const absl::string_view value = pair.substr(equals + 1);
    if (!uri.options.emplace(key, value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("option ", key, " is given twice"));
    }
  }
  const auto add_record_options = [&uri] {
    for (const auto& [key, value] : uri.options) {
      absl::StrAppend(&uri.record_options, key, "=", value, "\n");
    }
  };
  if (const auto it = uri.options.find("classes"); it != uri.options.end()) {
    if (it->second.empty()) return Bad("classes", "", "a file");
    if (is_table) it->second = AbsolutePath(it->second);
  }
  if (is_table) add_record_options();
  if (const auto it = uri.options.find("classes"); it != uri.options.end()) {
    uri.classes_file = it->second;
    uri.options.erase(it);
  }
  if (const auto it = uri.options.find("num_classes");
      it != uri.options.end()) {
    if (!absl::SimpleAtoi(it->second, &uri.num_classes) ||
        uri.num_classes < 1) {
      return Bad(it->first, it->second, "a number above 0");
    }
    uri.options.erase(it);
  }
  if (!is_table) add_record_options();
  if (const auto it = uri.options.find("label_offset");
      it != uri.options.end()) {
    if (!absl::SimpleAtoi(it->second, &uri.label_offset)) {
      return Bad(it->first, it->second, "a whole number");
    }
    uri.options.erase(it);
  }
  return uri;
}

std::string ExtentUri::ToString() const {
  return absl::StrCat(scheme, ":", path);
}

std::string ExtentUri::ShellArgument() const {
  std::string text = ToString();
  absl::string_view lines = record_options;
  absl::ConsumeSuffix(&lines, "\n");
  if (!lines.empty()) {
    absl::StrAppend(&text, "?", absl::StrReplaceAll(lines, {{"\n", "&"}}));
  }
  return ShellWord(text);
}

absl::Status ExtentUri::ApplyTo(int class_field, Schema* schema) const {
  if (classes_file.empty() && num_classes == 0 && label_offset == 0) {
    return absl::OkStatus();
  }
  if (class_field < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the options classes, num_classes and label_offset need a field with "
        "a class index, and ",
        ToString(), " has none: remove the options"));
  }
  Field& field = *schema->mutable_fields(class_field);
  int64_t count = num_classes;
  if (!classes_file.empty()) {
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ReadClassNames(classes_file));
    count = static_cast<int64_t>(names.size());
    if (num_classes != 0 && num_classes != count) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_classes=", num_classes, ", but ", classes_file,
                       " has the names of ", count, " classes"));
    }
    field.clear_class_names();
    for (const std::string& name : names) field.add_class_names(name);
  }
  if (count == 0) return absl::OkStatus();
  if (count < field.num_classes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        classes_file.empty()
            ? absl::StrCat("num_classes=", num_classes)
            : absl::StrCat(classes_file, " has ", CountText(count, "name")),
        ", but the largest class index of field '", field.name(), "' is ",
        field.num_classes() - 1, ": the dataset has at least ",
        field.num_classes(), " classes"));
  }
  field.set_num_classes(count);
  return absl::OkStatus();
}

}  // namespace millrace::storage
