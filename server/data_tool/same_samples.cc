#include "server/data_tool/same_samples.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// Images, masks, depths, edges, ...: more folders are classes.
constexpr size_t kMostKinds = 8;
// One file of the same name is nothing to go by.
constexpr size_t kLeastFiles = 2;

// Nine of ten: some masks may be missing, some files be something else.
bool AreNearlyAll(size_t some, size_t all) { return 10 * some >= 9 * all; }

size_t CountCommon(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(common));
  return common.size();
}

}  // namespace

void ImageNames::Add(absl::string_view name) {
  pngs += absl::EndsWithIgnoreCase(name, ".png");
  stems.push_back(
      std::hash<std::string>()(std::string(name.substr(0, name.rfind('.')))));
}

std::string WhySameSamples(const std::vector<NamedImages>& folders) {
  if (folders.size() < 2 || folders.size() > kMostKinds) return "";
  std::vector<std::vector<size_t>> stems;
  for (const NamedImages& folder : folders) {
    stems.push_back(folder.images->stems);
    std::sort(stems.back().begin(), stems.back().end());
  }
  const auto [fewest, most] = std::minmax_element(
      stems.begin(), stems.end(),
      [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (fewest->size() < kLeastFiles) return "";
  for (const std::vector<size_t>& each : stems) {
    if (!AreNearlyAll(CountCommon(each, *most), each.size())) return "";
  }
  for (const NamedImages& folder : folders) {
    if (folder.named_as_kind) {
      return absl::StrCat("no class is called ", folder.folder);
    }
  }
  // Numbered files of a smaller class are among those of a larger one.
  if (!AreNearlyAll(fewest->size(), most->size())) return "";
  for (const NamedImages& a : folders) {
    for (const NamedImages& b : folders) {
      if (a.images->AreAllPng() && b.images->pngs == 0) {
        return absl::StrCat(a.folder, " holds PNG files alone, ", b.folder,
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

}  // namespace millrace
