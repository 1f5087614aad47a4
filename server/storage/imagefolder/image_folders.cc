#include "server/storage/imagefolder/image_folders.h"

#include <algorithm>
#include <cstdint>

#include "common/first_of.h"

namespace millrace::storage {
namespace {

bool HoldsImages(const ImageFolders& folder) {
  return !folder.images.stems.empty() ||
         std::any_of(
             folder.folders.begin(), folder.folders.end(),
             [](const auto& entry) { return HoldsImages(entry.second); });
}

void Collect(const ImageFolders& folder, std::vector<const ImageNames*>* all) {
  all->push_back(&folder.images);
  for (const auto& [name, below] : folder.folders) Collect(below, all);
}

}  // namespace

std::vector<std::string> FoldersIn(const ImageFolders& folder,
                                   bool with_images) {
  std::vector<std::string> names;
  for (const auto& [name, below] : folder.folders) {
    if (HoldsImages(below) == with_images) names.push_back(name);
  }
  return names;
}

std::string ListNames(const std::vector<std::string>& names) {
  return FirstOf(names, ", ", static_cast<int64_t>(names.size()));
}

std::vector<const ImageNames*> AllImages(const ImageFolders& folder) {
  std::vector<const ImageNames*> all;
  Collect(folder, &all);
  return all;
}

}  // namespace millrace::storage
