#include "server/storage/foreign_lmdb/key_pattern.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kClassWord = "{class}";
// Of LMDB's library.
constexpr size_t kMaxKeyBytes = 511;

}  // namespace

struct KeyPattern::Search {
  absl::string_view key;
  // Part and place from which the rest does not match.
  std::vector<bool> failed;
  size_t class_begin = 0;
  size_t class_end = 0;
};

absl::StatusOr<KeyPattern> KeyPattern::Parse(absl::string_view text) {
  KeyPattern pattern;
  if (text.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError("a pattern of at most 511 bytes");
  }
  int classes = 0;
  while (!text.empty()) {
    if (absl::ConsumePrefix(&text, kClassWord)) {
      ++classes;
      pattern.parts_.push_back({Kind::kClass, ""});
    } else if (text.front() == '*') {
      text.remove_prefix(1);
      pattern.parts_.push_back({Kind::kAny, ""});
    } else {
      if (pattern.parts_.empty() || pattern.parts_.back().kind != Kind::kText) {
        pattern.parts_.push_back({Kind::kText, ""});
      }
      pattern.parts_.back().text += text.front();
      text.remove_prefix(1);
    }
  }
  if (classes != 1) {
    return absl::InvalidArgumentError(
        "a pattern with {class} once, such as {class}_* or train/{class}/*");
  }
  return pattern;
}

absl::string_view KeyPattern::ClassOf(absl::string_view key) const {
  Search search;
  search.key = key;
  search.failed.resize(parts_.size() * (key.size() + 1));
  if (!Match(0, 0, &search)) return {};
  return key.substr(search.class_begin, search.class_end - search.class_begin);
}

bool KeyPattern::Match(size_t part, size_t at, Search* search) const {
  if (part == parts_.size()) return at == search->key.size();
  const size_t state = part * (search->key.size() + 1) + at;
  if (search->failed[state]) return false;
  const Kind kind = parts_[part].kind;
  if (kind == Kind::kText) {
    const std::string& text = parts_[part].text;
    if (absl::StartsWith(search->key.substr(at), text) &&
        Match(part + 1, at + text.size(), search)) {
      return true;
    }
    search->failed[state] = true;
    return false;
  }
  for (size_t end = at;; ++end) {
    if (kind == Kind::kAny || end > at) {
      if (Match(part + 1, end, search)) {
        if (kind == Kind::kClass) {
          search->class_begin = at;
          search->class_end = end;
        }
        return true;
      }
    }
    if (end == search->key.size()) break;
    if (kind == Kind::kClass && search->key[end] == '/') break;
  }
  search->failed[state] = true;
  return false;
}

}  // namespace millrace::storage
