#include "server/data_tool/class_folders.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "server/data_tool/first_of.h"
#include "server/data_tool/split_name.h"

namespace millrace {
namespace {

std::string List(const std::vector<std::string>& names) {
  return FirstOf(names, ", ", static_cast<int64_t>(names.size()));
}

// How to pack one of the parts that lie in `folder`.
std::string PackPart(const std::string& folder,
                     const std::vector<std::string>& splits) {
  std::string example = splits[0];
  for (const std::string& name : splits) {
    if (PartOfName(name) == "train") example = name;
  }
  return absl::StrCat("--input=", folder, " --split=", example);
}

// Where the images below a folder lie.
struct Level {
  bool direct = false;            // some in the folder itself
  std::set<std::string> folders;  // those in it that hold images at any depth

  // The path of the folder is `prefix` bytes of the file's.
  void Add(const ClassFile& file, size_t prefix) {
    const absl::string_view rest = absl::string_view(file.path).substr(prefix);
    const size_t slash = rest.find('/');
    if (slash == rest.npos) {
      direct = true;
    } else {
      folders.emplace(rest.substr(0, slash));
    }
  }

  std::vector<std::string> Names() const {
    return {folders.begin(), folders.end()};
  }
};

// Of `folder`, which would be packed as class `name`. `how`: to pack its parts.
absl::Status CheckParts(const std::string& folder, const std::string& name,
                        const Level& level, absl::string_view how) {
  const std::vector<std::string> splits = SplitsAmong(level.Names());
  if (level.direct || splits.size() < 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "folders in ", folder, " are named as parts of a dataset (", List(splits),
      ") and would become one class, ", name, "; pack each part by itself (",
      how.empty() ? PackPart(folder, splits) : std::string(how),
      "), or pass --labels_from_folders if ", name, " is a class"));
}

// Whether a folder is named after what it holds of every sample.
bool IsKindName(absl::string_view name) {
  static constexpr absl::string_view kNames[] = {
      "annotations", "images", "image", "imgs",   "img",
      "jpegimages",  "labels", "masks", "mask",   "segmentation",
      "segmentations"};
  const std::string lower = absl::AsciiStrToLower(name);
  return std::find(std::begin(kNames), std::end(kNames), lower) !=
         std::end(kNames);
}

// A lone folder on the way to the classes, as an archive leaves it, would make
// one class of all images.
absl::Status CheckOneClass(const std::string& folder, const std::string& name,
                           absl::Span<const ClassFile> files) {
  // In bytewise order: what the first and the last have in common, all have.
  const std::string& first = files.front().path;
  const std::string& last = files.back().path;
  const auto same = static_cast<size_t>(
      std::mismatch(first.begin(), first.end(), last.begin(), last.end())
          .first -
      first.begin());
  const size_t slash = first.rfind('/', same - 1);
  Level level;
  for (const ClassFile& file : files) level.Add(file, slash + 1);
  const std::string common = absl::StrCat(folder, "/", first.substr(0, slash));
  MR_RETURN_IF_ERROR(CheckParts(common, name, level, ""));
  if (level.direct) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "every image of ", folder, " would be of the one class \"", name,
      "\", but ", common, " holds its images in folders (", List(level.Names()),
      "); if these are the classes, pack that folder (--input=", common,
      "), or pass --labels_from_folders if one class is meant"));
}

}  // namespace

absl::Status CheckClassNames(const std::string& folder,
                             const std::vector<std::string>& classes) {
  if (classes.size() > 1 &&
      std::all_of(classes.begin(), classes.end(), IsKindName)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "folders in ", folder, " are named after what they hold of each sample (",
        List(classes),
        ") and would become classes; pack reads images and class folders only: "
        "write images with masks or labels of another kind as Parquet "
        "(docs/formats.md), or pass --labels_from_folders if these are "
        "classes"));
  }
  const std::vector<std::string> splits = SplitsAmong(classes);
  // A train among buses is a class; CheckClassLevels() looks into it.
  if (splits.size() < 2 && splits.size() < classes.size()) {
    return absl::OkStatus();
  }
  const bool one = splits.size() == 1;
  return absl::InvalidArgumentError(absl::StrCat(
      one ? "the only folder in " : "folders in ", folder,
      one ? " is named as a part of a dataset and would become its class: "
          : " are named as parts of a dataset and would become its classes: ",
      List(splits), "; pack ", one ? "the part" : "each part by itself", " (",
      PackPart(folder, splits), "), or pass --labels_from_folders if ",
      one ? "it is a class" : "they are classes"));
}

absl::StatusOr<std::vector<std::string>> CheckClassLevels(
    const std::string& folder, const std::vector<std::string>& classes,
    absl::Span<const ClassFile> files) {
  std::vector<std::string> doubts;
  if (files.empty()) return doubts;
  if (classes.size() == 1) {
    MR_RETURN_IF_ERROR(CheckOneClass(folder, classes[0], files));
    return doubts;
  }
  std::vector<Level> levels(classes.size());
  for (const ClassFile& file : files) {
    levels[file.label].Add(file, classes[file.label].size() + 1);
  }
  bool some_direct = false;
  bool alike = true;
  for (size_t i = 0; i < classes.size(); ++i) {
    const Level& level = levels[i];
    MR_RETURN_IF_ERROR(CheckParts(
        absl::StrCat(folder, "/", classes[i]), classes[i], level,
        "as a folder of its own, with a folder for each class in it"));
    some_direct = some_direct || level.direct;
    alike = alike && !level.direct && level.folders.size() > 1 &&
            level.folders == levels[0].folders;
  }
  if (alike) {
    doubts.push_back(absl::StrCat(
        "each class folder holds its images in folders of the same names (",
        List(levels[0].Names()),
        "), which become no classes; if they should, pack each folder of ",
        folder, " by itself, such as --input=", folder, "/", classes[0]));
  }
  // CheckClassNames() leaves at most one.
  for (const std::string& name : SplitsAmong(classes)) {
    const Level& level =
        levels[std::find(classes.begin(), classes.end(), name) -
               classes.begin()];
    const std::string how = PackPart(folder, {name});
    if (level.direct || level.folders.empty() || !some_direct) {
      doubts.push_back(absl::StrCat(
          "folder ", name,
          " becomes a class, although it is named as a part of a dataset; if "
          "it is a part, pack it by itself (",
          how, ")"));
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        folder, "/", name,
        " is named as a part of a dataset and holds its images in folders (",
        List(level.Names()),
        "), while folders beside it hold images themselves: it would become a "
        "class; pack it by itself (",
        how,
        "), move it elsewhere to pack the others, or pass "
        "--labels_from_folders if it is a class"));
  }
  return doubts;
}

}  // namespace millrace
