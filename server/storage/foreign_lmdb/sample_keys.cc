#include "server/storage/foreign_lmdb/sample_keys.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::storage {
namespace {

// Keys of the layout that text recognition uses.
constexpr absl::string_view kImageKey = "image-";
constexpr absl::string_view kTextKey = "label-";
constexpr absl::string_view kCountKey = "num-samples";
constexpr size_t kDigits = 9;

constexpr size_t kShownBytes = 120;

absl::string_view Text(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// "PREFIX000000017"
bool IsNumbered(absl::string_view key, absl::string_view prefix) {
  if (key.size() != prefix.size() + kDigits || !absl::StartsWith(key, prefix)) {
    return false;
  }
  key.remove_prefix(prefix.size());
  return std::all_of(key.begin(), key.end(),
                     [](char c) { return absl::ascii_isdigit(c); });
}

}  // namespace

absl::Status AtKey(const absl::Status& status, const Environment& environment,
                   absl::string_view key) {
  return absl::Status(
      status.code(),
      absl::StrCat(environment.path(), ": the record with key '",
                   CleanText(key, kShownBytes), "': ", status.message()));
}

bool HasTexts(const Environment& environment) {
  LmdbTree::Position position;
  absl::Span<const uint8_t> value;
  for (const absl::string_view key :
       {kCountKey, absl::string_view("image-000000001")}) {
    if (environment.Find(key, &position, &value) != LmdbTree::Result::kFound) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<bool> SampleKeys::Next(Sample* sample) {
  LmdbCursor::Entry entry;
  while (true) {
    const LmdbCursor::Result result = cursor_.Next(&entry);
    if (result == LmdbCursor::Result::kDamaged) return environment_.Damaged();
    if (result == LmdbCursor::Result::kEnd) {
      if (text_) MR_RETURN_IF_ERROR(CheckCount());
      return false;
    }
    if (entry.database.has_value()) {
      return AtKey(UsageError(absl::InvalidArgumentError(absl::StrCat(
                       "it is a named database beside plain records: name it "
                       "with the option db=",
                       CleanText(entry.key, kShownBytes),
                       ", or write the records without it"))),
                   environment_, entry.key);
    }
    if (text_ ? !IsNumbered(entry.key, kImageKey)
              : options_.IsLabelKey(entry.key)) {
      continue;
    }
    *sample = {.key = entry.key, .place = entry.place};
    if (text_) MR_RETURN_IF_ERROR(FindText(sample));
    if (options_.label_from == ForeignOptions::LabelFrom::kKey) {
      MR_RETURN_IF_ERROR(FindLabel(sample));
    }
    ++seen_;
    return true;
  }
}

absl::Status SampleKeys::FindLabel(Sample* sample) {
  const std::string key = options_.LabelKeyOf(sample->key);
  switch (environment_.Find(key, &position_, &sample->label)) {
    case LmdbTree::Result::kFound:
      return absl::OkStatus();
    case LmdbTree::Result::kDamaged:
      return environment_.Damaged();
    case LmdbTree::Result::kNotFound:
      break;
  }
  MR_RETURN_IF_ERROR(environment_.file().CheckUnchanged());
  return AtKey(absl::DataLossError(absl::StrCat("there is no key '",
                                                CleanText(key, kShownBytes),
                                                "' with its label")),
               environment_, sample->key);
}

absl::Status SampleKeys::FindText(Sample* sample) {
  // Both kinds of keys rise with the number.
  LmdbCursor::Entry entry;
  do {
    const LmdbCursor::Result result = texts_.Next(&entry);
    if (result == LmdbCursor::Result::kDamaged) return environment_.Damaged();
    if (result == LmdbCursor::Result::kEnd) entry.key = {};
  } while (!entry.key.empty() && !IsNumbered(entry.key, kTextKey));
  const absl::string_view number = sample->key.substr(kImageKey.size());
  if (entry.key.empty() || entry.key.substr(kTextKey.size()) != number) {
    return AtKey(absl::DataLossError(absl::StrCat(
                     "there is no key '", kTextKey, number,
                     "' with its text, or a text before it has no image")),
                 environment_, sample->key);
  }
  sample->text = entry.place;
  return absl::OkStatus();
}

absl::Status SampleKeys::CheckCount() const {
  LmdbTree::Position position;
  absl::Span<const uint8_t> value;
  const LmdbTree::Result result =
      environment_.Find(kCountKey, &position, &value);
  if (result == LmdbTree::Result::kNotFound) return absl::OkStatus();
  if (result == LmdbTree::Result::kDamaged) return environment_.Damaged();
  int64_t count;
  if (absl::SimpleAtoi(Text(value), &count) && count == seen_) {
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(environment_.file().CheckUnchanged());
  return AtKey(absl::DataLossError(absl::StrCat(
                   "it says '", CleanText(Text(value), kShownBytes),
                   "', and the environment has ", seen_, " images")),
               environment_, kCountKey);
}

}  // namespace millrace::storage
