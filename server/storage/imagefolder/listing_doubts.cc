#include "server/storage/imagefolder/listing_doubts.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/first_of.h"

namespace millrace::storage {
namespace {

// "cat/1" of "cat/1.jpg".
absl::string_view StemOf(absl::string_view path) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool suffix = dot != path.npos && (slash == path.npos || dot > slash);
  return suffix ? path.substr(0, dot) : path;
}

}  // namespace

std::vector<std::string> EmptyClasses(const std::string& folder,
                                      const std::vector<std::string>& classes,
                                      const FolderFiles& files) {
  std::vector<bool> seen(classes.size());
  for (const FolderFiles::ClassRange& range : files.classes()) {
    seen[range.label] = true;
  }
  std::vector<std::string> empty;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (!seen[i]) empty.push_back(absl::StrCat(folder, "/", classes[i]));
  }
  return empty;
}

std::string SharedStems(const std::string& folder, const FolderFiles& files,
                        absl::string_view verb) {
  std::vector<std::string> first;
  int64_t shared = 0;
  for (const FolderFiles::ClassRange& range : files.classes()) {
    const int64_t end = range.first + range.count;
    absl::flat_hash_map<absl::string_view, int64_t> counts;
    for (int64_t i = range.first; i < end; ++i) {
      ++counts[StemOf(files.NameInClass(i))];
    }
    for (int64_t i = range.first; i < end; ++i) {
      const absl::string_view stem = StemOf(files.NameInClass(i));
      const int64_t count = std::exchange(counts[stem], 0);
      if (count < 2) continue;
      ++shared;
      if (first.size() == kMaxListed) continue;
      const std::string path = absl::StrCat(range.name, "/", stem);
      const size_t slash = path.rfind('/');
      first.push_back(absl::StrCat(count, " files share the stem ",
                                   path.substr(slash + 1), " in ", folder, "/",
                                   path.substr(0, slash)));
    }
  }
  if (shared == 0) return "";
  return absl::StrCat(FirstOf(first, "; ", shared), ": each file is ", verb,
                      " as a separate sample");
}

std::string SameButForCase(const std::vector<std::string>& classes) {
  absl::flat_hash_map<std::string, absl::string_view> seen;
  for (const std::string& name : classes) {
    const auto [other, is_new] =
        seen.emplace(absl::AsciiStrToLower(name), name);
    if (is_new) continue;
    return absl::StrCat("the class folders ", other->second, " and ", name,
                        " differ only in upper and lower case, and become two "
                        "classes");
  }
  return "";
}

}  // namespace millrace::storage
