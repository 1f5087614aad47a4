#include "server/storage/tfrecord/example_options.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/extents/extent_uri.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 200;
constexpr absl::string_view kOptions[] = {"image", "label", "fields", "ragged",
                                          "preset"};

absl::Status BadValue(absl::string_view name, absl::string_view value,
                      absl::string_view wanted) {
  return UsageError(absl::InvalidArgumentError(
      absl::StrCat("option ", name, "=", CleanText(value, kMaxQuotedBytes),
                   " of a tfrecord: dataset: ", wanted)));
}

absl::StatusOr<std::vector<std::string>> ParseNames(absl::string_view name,
                                                    absl::string_view value) {
  std::vector<std::string> names = absl::StrSplit(value, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      return BadValue(name, value, "write names of features between commas");
    }
    if (std::find(names.begin(), names.begin() + i, names[i]) !=
        names.begin() + i) {
      return BadValue(name, value,
                      absl::StrCat("'", CleanText(names[i], kMaxQuotedBytes),
                                   "' is named twice"));
    }
  }
  return names;
}

absl::Status ParseOption(absl::string_view name, const std::string& value,
                         ExampleOptions* parsed) {
  if (name == "image" || name == "label") {
    if (value.empty()) {
      return BadValue(name, value, "write the name of a feature");
    }
    (name == "image" ? parsed->image : parsed->label) = value;
  } else if (name == "fields") {
    MR_ASSIGN_OR_RETURN(parsed->fields, ParseNames(name, value));
  } else if (name == "ragged") {
    MR_ASSIGN_OR_RETURN(parsed->ragged, ParseNames(name, value));
  } else if (name == "preset") {
    if (value != "imagenet" && value != "none") {
      return BadValue(name, value, "write imagenet or none");
    }
    parsed->preset =
        value == "none" ? ExamplePreset::kNone : ExamplePreset::kImagenet;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExampleOptions> ParseExampleOptions(
    const FormatOptions& options) {
  MR_RETURN_IF_ERROR(CheckOptions("tfrecord", options, kOptions));
  ExampleOptions parsed;
  for (const auto& [name, value] : options) {
    MR_RETURN_IF_ERROR(ParseOption(name, value, &parsed));
  }
  if (parsed.preset == ExamplePreset::kImagenet &&
      !(parsed.image.empty() && parsed.label.empty())) {
    return UsageError(absl::InvalidArgumentError(
        "options of a tfrecord: dataset: preset=imagenet names the features of "
        "image and label, so image= and label= cannot be given too"));
  }
  return parsed;
}

}  // namespace millrace::storage
