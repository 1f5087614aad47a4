#include "server/storage/imagefolder/folder_kinds.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/storage/imagefolder/same_samples.h"

namespace millrace::storage {
namespace {

bool AreKinds(const std::vector<std::string>& names) {
  return names.size() > 1 && std::all_of(names.begin(), names.end(), IsKind);
}

}  // namespace

bool IsKind(absl::string_view name) {
  static constexpr absl::string_view kNames[] = {
      "annotations", "ground_truth", "groundtruth",  "gt",    "images",
      "image",       "imgs",         "img",          "label", "jpegimages",
      "labels",      "masks",        "segmentation", "mask",  "segmentations"};
  return std::find(std::begin(kNames), std::end(kNames),
                   absl::AsciiStrToLower(name)) != std::end(kNames);
}

bool IsKindAndNoClass(absl::string_view name) {
  return IsKind(name) && absl::AsciiStrToLower(name) != "mask";
}

std::string WhyKinds(const ImageFolders& folder,
                     const std::vector<std::string>& names) {
  if (AreKinds(names)) {
    return absl::StrCat("have the names of parts of a sample (",
                        ListNames(names), ")");
  }
  std::vector<NamedImages> images;
  for (const std::string& name : names) {
    const ImageFolders& below = folder.folders.at(name);
    if (!FoldersIn(below).empty()) return "";
    images.push_back({.folder = name,
                      .images = &below.images,
                      .named_as_kind = IsKindAndNoClass(name)});
  }
  const std::string why = WhySameSamples(images);
  if (why.empty()) return "";
  return absl::StrCat("contain parts of the same samples (", ListNames(names),
                      ": the file names are the same, and ", why, ")");
}

}  // namespace millrace::storage
