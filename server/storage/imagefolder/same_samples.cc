#include "server/storage/imagefolder/same_samples.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace::storage {
namespace {

// Max number of kinds (images, masks, depths, edges, ...): more folders are
// classes.
constexpr size_t kMaxKinds = 8;
// A single common file name is no evidence.
constexpr size_t kMinFiles = 2;

// True for nine of ten: some masks may be missing, and some files may be of
// another kind.
bool AreNearlyAll(size_t some, size_t all) { return 10 * some >= 9 * all; }

size_t CountCommon(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(common));
  return common.size();
}

size_t HashOf(absl::string_view name) {
  return std::hash<std::string>()(std::string(name));
}

// The image's name in the name of a mask ("1" of "1_mask" and "1_mask_2");
// empty: the name is not that of a mask.
absl::string_view ImageOfMask(absl::string_view stem) {
  static constexpr absl::string_view kWords[] = {
      "_mask",  "_masks",       "_segmentation", "_seg",         "_gt",
      "_label", "_labels",      "_labelids",     "-mask",        "_trainids",
      "_matte", "_instanceids", "_groundtruth",  "_ground_truth"};
  const size_t end = stem.find_last_not_of("0123456789");
  absl::string_view base = stem;
  // One of several masks for one image.
  if (end != absl::string_view::npos && end + 1 < stem.size() &&
      stem[end] == '_') {
    base = stem.substr(0, end);
  }
  for (const absl::string_view word : kWords) {
    for (const absl::string_view name : {stem, base}) {
      if (name.size() > word.size() && absl::EndsWithIgnoreCase(name, word)) {
        return name.substr(0, name.size() - word.size());
      }
    }
  }
  return "";
}

}  // namespace

void ImageNames::Add(absl::string_view name) {
  pngs += absl::EndsWithIgnoreCase(name, ".png");
  const absl::string_view stem = name.substr(0, name.rfind('.'));
  stems.push_back(HashOf(stem));
  const absl::string_view image = ImageOfMask(stem);
  if (!image.empty()) masks_of.push_back(HashOf(image));
}

std::string WhyMasks(const std::vector<const ImageNames*>& all) {
  std::vector<size_t> stems, masks;
  for (const ImageNames* images : all) {
    stems.insert(stems.end(), images->stems.begin(), images->stems.end());
    masks.insert(masks.end(), images->masks_of.begin(), images->masks_of.end());
  }
  std::sort(stems.begin(), stems.end());
  const auto with_image = static_cast<size_t>(
      std::count_if(masks.begin(), masks.end(), [&stems](size_t image) {
        return std::binary_search(stems.begin(), stems.end(), image);
      }));
  if (with_image >= kMinFiles && 5 * with_image >= stems.size()) {
    return absl::StrCat(with_image, " of ", stems.size(),
                        " images have the names of masks of other images "
                        "(1_mask.png beside 1.jpg)");
  }
  if (masks.size() >= kMinFiles && 2 * masks.size() >= stems.size()) {
    return absl::StrCat(masks.size(), " of ", stems.size(),
                        " images have the names of masks (such as 1_mask.png)");
  }
  return "";
}

std::string WhySameSamples(const std::vector<NamedImages>& folders) {
  if (folders.size() < 2 || folders.size() > kMaxKinds) return "";
  std::vector<std::vector<size_t>> stems;
  for (const NamedImages& folder : folders) {
    stems.push_back(folder.images->stems);
    std::sort(stems.back().begin(), stems.back().end());
  }
  const auto [fewest, most] = std::minmax_element(
      stems.begin(), stems.end(),
      [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (fewest->size() < kMinFiles) return "";
  for (const std::vector<size_t>& each : stems) {
    if (!AreNearlyAll(CountCommon(each, *most), each.size())) return "";
  }
  for (const NamedImages& folder : folders) {
    if (folder.named_as_kind) {
      return absl::StrCat("a class is rarely called ", folder.folder);
    }
  }
  // The numbered files of a smaller class also exist in a larger class, so they
  // are no evidence.
  if (!AreNearlyAll(fewest->size(), most->size())) return "";
  for (const NamedImages& a : folders) {
    for (const NamedImages& b : folders) {
      if (a.images->AreAllPng() && b.images->pngs == 0) {
        return absl::StrCat(a.folder, " contains only PNG files, ", b.folder,
                            " none");
      }
      if (a.images->one_channel && b.images->AreAllPng() &&
          !b.images->one_channel) {
        return absl::StrCat("the PNG files in ", a.folder,
                            " have one channel, those in ", b.folder, " more");
      }
    }
  }
  return "";
}

bool IsOneChannelPng(absl::string_view start) {
  constexpr size_t kColorType = 25;
  constexpr char kGrey = 0;
  constexpr char kPalette = 3;
  return absl::StartsWith(start, "\x89PNG\r\n\x1A\n") &&
         start.size() > kColorType &&
         (start[kColorType] == kGrey || start[kColorType] == kPalette);
}

}  // namespace millrace::storage
