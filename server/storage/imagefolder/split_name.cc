#include "server/storage/imagefolder/split_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace millrace::storage {
namespace {

using Spelling = std::pair<absl::string_view, absl::string_view>;

constexpr std::array<Spelling, 18> kParts = {{{"train", "train"},
                                              {"training", "train"},
                                              {"trainset", "train"},
                                              {"trainval", "trainval"},
                                              {"val", "val"},
                                              {"valid", "val"},
                                              {"validation", "val"},
                                              {"valset", "val"},
                                              {"dev", "dev"},
                                              {"eval", "eval"},
                                              {"evaluation", "eval"},
                                              {"test", "test"},
                                              {"testing", "test"},
                                              {"testset", "test"},
                                              {"unlabeled", "unlabeled"},
                                              {"holdout", "holdout"},
                                              {"heldout", "holdout"},
                                              {"fold", "fold"}}};

// Words that may stand beside a part's name without another meaning.
constexpr std::array<absl::string_view, 16> kFillers = {
    "image", "images", "img",    "imgs",  "data", "dataset", "set",   "split",
    "part",  "photo",  "photos", "files", "jpg",  "jpeg",    "jpegs", "png"};

// The part in a name, and the other words of the name.
struct Words {
  std::string part;
  std::string rest;
};

Words WordsOf(absl::string_view name) {
  Words words;
  // A fold of a cross-validation has a number. Without one, "fold" may be a
  // class.
  const bool numbered =
      std::any_of(name.begin(), name.end(), absl::ascii_isdigit);
  for (size_t i = 0; i < name.size();) {
    std::string word;
    // A word ends before a capital letter: TrainImages.
    while (i < name.size() && absl::ascii_isalpha(name[i]) &&
           (word.empty() || !absl::ascii_islower(name[i - 1]) ||
            !absl::ascii_isupper(name[i]))) {
      word.push_back(absl::ascii_tolower(name[i++]));
    }
    if (word.empty()) {
      // Characters that no part name has. Bytes of other alphabets count as
      // words.
      if (!absl::ascii_isascii(name[i])) words.rest.push_back(name[i]);
      ++i;
      continue;
    }
    absl::string_view part;
    for (const auto& [spelling, meaning] : kParts) {
      if (word == spelling && (numbered || word != "fold")) part = meaning;
    }
    bool filler = false;
    for (absl::string_view known : kFillers) filler = filler || word == known;
    if (!part.empty()) {
      absl::StrAppend(&words.part, part);  // train_val becomes trainval
    } else if (!filler) {
      absl::StrAppend(&words.rest, word, " ");
    }
  }
  for (absl::string_view two_words : {"hold out ", "held out "}) {
    absl::string_view rest = words.rest;
    if (absl::ConsumeSuffix(&rest, two_words)) {
      words.rest = std::string(rest);
      absl::StrAppend(&words.part, "holdout");
    }
  }
  return words;
}

}  // namespace

std::string PartOfName(absl::string_view name) {
  Words words = WordsOf(name);
  return words.rest.empty() ? std::move(words.part) : "";
}

std::vector<std::string> SplitsAmong(const std::vector<std::string>& names) {
  std::map<std::string, std::set<std::string>> parts;  // by the other words
  for (const std::string& name : names) {
    const Words words = WordsOf(name);
    if (!words.part.empty()) parts[words.rest].insert(words.part);
  }
  std::vector<std::string> splits;
  for (const std::string& name : names) {
    const Words words = WordsOf(name);
    if (words.part.empty()) continue;
    if (words.rest.empty() || parts[words.rest].size() > 1) {
      splits.push_back(name);
    }
  }
  return splits;
}

}  // namespace millrace::storage
