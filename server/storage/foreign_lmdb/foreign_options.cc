#include "server/storage/foreign_lmdb/foreign_options.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kKnown[] = {"db", "label", "label_key", "labels",
                                        "layout"};
constexpr absl::string_view kKeyWord = "{key}";

absl::Status Bad(absl::string_view option, absl::string_view value,
                 absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "option ", option, "=", value, " is wrong: expected ", expected));
}

}  // namespace

absl::StatusOr<ForeignOptions> ForeignOptions::Parse(const ExtentUri& uri) {
  MR_RETURN_IF_ERROR(CheckOptions(uri.scheme, uri.options, kKnown));
  constexpr int64_t kMaxOffset = std::numeric_limits<int32_t>::max();
  if (uri.label_offset > kMaxOffset || uri.label_offset < -kMaxOffset) {
    return Bad("label_offset", absl::StrCat(uri.label_offset),
               "a number of at most 31 bits");
  }
  ForeignOptions parsed;
  int labels = 0;
  for (const auto& [option, value] : uri.options) {
    if (value.empty()) return Bad(option, value, "a value behind '='");
    if (option == "db") {
      parsed.database = value;
    } else if (option == "layout") {
      parsed.layout = value;
    } else if (option == "label") {
      ++labels;
      if (value == "prefix") {
        parsed.label_from = LabelFrom::kPrefix;
        continue;
      }
      absl::StatusOr<KeyPattern> pattern = KeyPattern::Parse(value);
      if (!pattern.ok()) {
        return Bad(option, value,
                   absl::StrCat("prefix (the class is the part of the key "
                                "before its first '/', or '_' where it has no "
                                "'/'), or ",
                                pattern.status().message()));
      }
      parsed.label_from = LabelFrom::kPattern;
      parsed.pattern = *std::move(pattern);
    } else if (option == "labels") {
      parsed.label_from = LabelFrom::kFile;
      parsed.labels_file = value;
      ++labels;
    } else {
      const size_t at = absl::string_view(value).find(kKeyWord);
      if (at == absl::string_view::npos || value == kKeyWord) {
        return Bad(option, value,
                   "a pattern with {key} and other letters, such as {key}.cls");
      }
      parsed.label_from = LabelFrom::kKey;
      parsed.before_key = value.substr(0, at);
      parsed.behind_key = value.substr(at + kKeyWord.size());
      ++labels;
    }
  }
  if (labels > 1) {
    return absl::InvalidArgumentError(
        "the options label, labels and label_key exclude each other: name one "
        "source of labels");
  }
  if (labels > 0 && (parsed.layout == "datum" || parsed.layout == "text")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout=", parsed.layout,
        " has no labels from keys: remove the option label, labels or "
        "label_key"));
  }
  return parsed;
}

std::string ForeignOptions::LabelKeyOf(absl::string_view key) const {
  return absl::StrCat(before_key, key, behind_key);
}

bool ForeignOptions::IsLabelKey(absl::string_view key) const {
  return label_from == LabelFrom::kKey &&
         key.size() > before_key.size() + behind_key.size() &&
         absl::StartsWith(key, before_key) && absl::EndsWith(key, behind_key);
}

absl::string_view ClassPrefixOf(absl::string_view key) {
  size_t end = key.find('/');
  if (end == key.npos) end = key.find('_');
  return end == key.npos ? absl::string_view() : key.substr(0, end);
}

}  // namespace millrace::storage
