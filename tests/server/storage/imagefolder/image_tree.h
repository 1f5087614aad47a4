// Image folders for tests.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_IMAGEFOLDER_IMAGE_TREE_H_
#define MILLRACE_TESTS_SERVER_STORAGE_IMAGEFOLDER_IMAGE_TREE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/storage/imagefolder/folder_index.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {

// A folder "images" below a temporary folder, and a cache folder beside it.
class ImageTree {
 public:
  ImageTree() { std::filesystem::create_directory(path()); }

  std::string path() const { return folder_ / "images"; }
  std::string operator/(absl::string_view name) const {
    return absl::StrCat(path(), "/", name);
  }
  std::string cache() const { return folder_ / "cache"; }
  std::string uri() const { return absl::StrCat("imagefolder:", path()); }

  // Writes a file that begins as a JPEG, and the folders above it.
  void Add(absl::string_view name) const {
    const std::filesystem::path file = *this / name;
    std::filesystem::create_directories(file.parent_path());
    WriteFile(file, absl::StrCat("\xFF\xD8\xFF", name));
  }
  void AddAll(const std::vector<std::string>& names) const {
    for (const std::string& name : names) Add(name);
  }

  // A copy with the times of the original, as `cp -a` makes it.
  void CopyTo(const std::string& to) const {
    std::filesystem::copy(path(), to, std::filesystem::copy_options::recursive);
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path())) {
      std::filesystem::last_write_time(
          to / std::filesystem::relative(entry.path(), path()),
          std::filesystem::last_write_time(entry.path()));
    }
  }

  // The one index in the cache folder.
  std::string IndexFile() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(cache())) {
      found = entry.path();
    }
    return found;
  }
  FolderIndex Index() const {
    const auto index = DecodeFolderIndex(ReadFile(IndexFile()));
    return index.ok() ? *index : FolderIndex();
  }
  // As if the folder had been listed some time after its last change.
  void LetIndexSettle() const {
    FolderIndex index = Index();
    index.listed_nanos += 10'000'000'000;
    WriteFile(IndexFile(), EncodeFolderIndex(index));
  }

 private:
  TempFolder folder_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_IMAGEFOLDER_IMAGE_TREE_H_
