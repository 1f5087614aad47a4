#include "server/storage/imagefolder/class_folders.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/imagefolder/folder_kinds.h"
#include "server/storage/imagefolder/same_samples.h"
#include "server/storage/imagefolder/split_name.h"

namespace millrace::storage {
namespace {

using Names = std::vector<std::string>;

// The checks of an input, from the top down. Each error says what to do.
class Layout {
 public:
  Layout(const std::string& input, absl::Span<const std::string> tables,
         FolderUse use)
      : input_(input),
        tables_(tables.begin(), tables.end()),
        advice_(input, use),
        verb_(advice_.verb()) {}

  // Whether `path` can be packed as it is.
  absl::StatusOr<Names> Check(const std::string& path,
                              const ImageFolders& folder) const {
    const Names names = FoldersIn(folder);
    if (names.empty()) return NoClasses(path);
    if (const std::string kinds = WhyKinds(folder, names); !kinds.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "folders in ", path, " ", kinds, " and would become classes; ",
          advice_.WriteParquet(), ", or ", advice_.PassAsClasses(path),
          " if these are classes"));
    }
    if (const std::string masks = WhyMasks(AllImages(folder)); !masks.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "in ", path, ", ", masks, " and would become samples; ",
          advice_.WriteParquet(), ", or ", advice_.PassAsClasses(path),
          " if all of them are images of the classes"));
    }
    const Names splits = SplitsAmong(names);
    // A "train" among buses is a class; CheckPartAmongClasses() checks it.
    if (splits.size() > 1 || splits.size() == names.size()) {
      const bool one = splits.size() == 1;
      return absl::InvalidArgumentError(absl::StrCat(
          one ? "the only folder with images in " : "folders in ", path,
          one ? " has the name of a part of a dataset and would become its "
                "class: "
              : " have the names of parts of a dataset and would become its "
                "classes: ",
          ListNames(splits), "; ", OpenParts(path, folder, splits), ", or ",
          advice_.PassAsClasses(path), " if ",
          one ? "it is a class" : "they are classes"));
    }
    if (names.size() == 1) return CheckOneClass(path, folder, names[0]);
    return CheckClasses(path, folder, names);
  }

 private:
  // Error for a folder with images and without sub-folders.
  absl::Status NoClasses(const std::string& path) const {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " contains images without class folders",
        tables_.empty()
            ? ""
            : absl::StrCat(", and ", advice_.MayHoldLabels(tables_)),
        "; ", advice_.PackTable(tables_),
        "sort the images into one folder for each class, or write their paths "
        "and labels into a table (csv:PATH)"));
  }

  // The tables that may contain the classes of the images in `path`, whose only
  // folder is `name`: the tables below it, or all tables if `name` is no class
  // name.
  Names TablesOf(const std::string& path, const std::string& name) const {
    if (path == input_ || IsKind(name)) return tables_;
    const std::string below = absl::StrCat(path.substr(input_.size() + 1), "/");
    Names tables;
    for (const std::string& table : tables_) {
      if (absl::StartsWith(table, below)) tables.push_back(table);
    }
    return tables;
  }

  // How to pack, or open, the parts `splits` of a dataset in `path`.
  std::string OpenParts(const std::string& path, const ImageFolders& folder,
                        const Names& splits) const {
    Names ready;
    for (const std::string& name : splits) {
      if (Check(absl::StrCat(path, "/", name), folder.folders.at(name)).ok()) {
        ready.push_back(name);
      }
    }
    const std::string& example = Example(ready.empty() ? splits : ready);
    const std::string part = absl::StrCat(path, "/", example);
    if (ready.empty()) {
      return absl::StrCat(
          splits.size() == 1 ? "it cannot be " : "none of them can be ",
          advice_.InThisForm(), ": ",
          Check(part, folder.folders.at(example)).status().message());
    }
    const std::string how =
        absl::StrCat(" (", advice_.PartArgument(path, example),
                     advice_.Before(folder.folders.at(example)), ")");
    if (splits.size() == 1) return absl::StrCat(verb_, " the part", how);
    if (ready.size() == splits.size()) {
      return absl::StrCat(verb_, " each part by itself", how);
    }
    return absl::StrCat(verb_, " ", ListNames(ready), " by ",
                        ready.size() == 1 ? "itself" : "themselves", how,
                        "; the others cannot be ", advice_.InThisForm());
  }

  static const std::string& Example(const Names& splits) {
    for (const std::string& name : splits) {
      if (PartOfName(name) == "train") return name;
    }
    return splits[0];
  }

  // Checks a `path` with all images in its folder `name`. A single folder above
  // the classes, as an archive leaves it, would make one class of them.
  absl::StatusOr<Names> CheckOneClass(const std::string& path,
                                      const ImageFolders& folder,
                                      const std::string& name) const {
    std::string deepest = absl::StrCat(path, "/", name);
    const ImageFolders* below = &folder.folders.at(name);
    Names names = FoldersIn(*below);
    while (below->images.stems.empty() && names.size() == 1) {
      absl::StrAppend(&deepest, "/", names[0]);
      below = &below->folders.at(names[0]);
      names = FoldersIn(*below);
    }
    const std::string one_class = absl::StrCat(
        "every image of ", path, " would be of one class, \"", name, "\"");
    if (!below->images.stems.empty()) {
      const Names tables = TablesOf(path, name);
      if (tables.empty()) return Names();
      return absl::InvalidArgumentError(
          absl::StrCat(one_class, ", and ", advice_.MayHoldLabels(tables), "; ",
                       advice_.PackTable(tables),
                       "sort the images into one folder for each class, or ",
                       advice_.PassAsClasses(path), " if one class is meant"));
    }
    const absl::Status classes = Check(deepest, *below).status();
    if (!classes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(one_class, " (", advice_.AsClasses(path),
                       " packs them in this way); ", classes.message()));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        one_class, ", but ", deepest, " contains its images in folders (",
        ListNames(names), "); if these are the classes, ", verb_,
        " that folder (", advice_.Argument(deepest), advice_.Before(*below),
        "), or ", advice_.PassAsClasses(path), " if one class is meant"));
  }

  absl::StatusOr<Names> CheckClasses(const std::string& path,
                                     const ImageFolders& folder,
                                     const Names& classes) const {
    Names doubts;
    bool some_direct = false;
    for (const std::string& name : classes) {
      const ImageFolders& below = folder.folders.at(name);
      MR_RETURN_IF_ERROR(CheckClass(path, name, below));
      some_direct = some_direct || !below.images.stems.empty();
    }
    MR_RETURN_IF_ERROR(CheckTables(path, classes));
    if (const Names same = SameFolders(folder, classes); !same.empty()) {
      MR_RETURN_IF_ERROR(CheckPartsAlike(path, folder, classes, same));
      const std::string path_of_first = absl::StrCat(path, "/", classes[0]);
      const ImageFolders& below = folder.folders.at(classes[0]);
      // One folder alone would be refused as the only class.
      const bool ready = same.size() > 1 && Check(path_of_first, below).ok();
      doubts.push_back(absl::StrCat(
          "each class folder contains its images in ",
          same.size() == 1 ? "a folder of the same name ("
                           : "folders of the same names (",
          ListNames(same), "), which ",
          same.size() == 1 ? "does not become a class"
                           : "do not become classes",
          "; if ", same.size() == 1 ? "it is a class, " : "they are classes, ",
          ready ? absl::StrCat(
                      verb_, " each folder of ", path, " by itself, such as ",
                      advice_.Argument(path_of_first), advice_.Before(below))
                : absl::StrCat("move the images into one folder for each "
                               "class, such as ",
                               path, "/", same[0])));
    }
    // Check() leaves at most one.
    for (const std::string& name : SplitsAmong(classes)) {
      MR_RETURN_IF_ERROR(
          CheckPartAmongClasses(path, folder, name, some_direct, &doubts));
    }
    return doubts;
  }

  // The folders with images that each of `classes` contains. Empty: there are
  // none, some class contains images directly, or no class has such names
  // (tiny-imagenet's n01443537/images, cat/train).
  static Names SameFolders(const ImageFolders& folder, const Names& classes) {
    Names same = FoldersIn(folder.folders.at(classes[0]));
    for (const std::string& name : classes) {
      const ImageFolders& below = folder.folders.at(name);
      if (!below.images.stems.empty()) return {};
      const Names names = FoldersIn(below);
      Names both;
      std::set_intersection(same.begin(), same.end(), names.begin(),
                            names.end(), std::back_inserter(both));
      same = std::move(both);
    }
    const bool classes_below =
        std::any_of(same.begin(), same.end(), [](const std::string& name) {
          return !IsKind(name) && PartOfName(name).empty();
        });
    return classes_below ? same : Names();
  }

  // Folders that contain the same folders `same` are parts of a dataset if one
  // of them has the name of a part: train/cat, gallery/cat.
  absl::Status CheckPartsAlike(const std::string& path,
                               const ImageFolders& folder, const Names& classes,
                               const Names& same) const {
    const Names splits = SplitsAmong(classes);
    if (splits.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "folder ", splits[0], " in ", path,
        " has the name of a part of a dataset, and all folders beside it "
        "contain folders of the same names (",
        ListNames(same), "), so ", ListNames(classes),
        " would become classes; ", OpenParts(path, folder, classes), ", or ",
        advice_.PassAsClasses(path), " if they are classes"));
  }

  // A table beside a folder that no class is called (images/, labels.csv) may
  // contain the labels.
  absl::Status CheckTables(const std::string& path,
                           const Names& classes) const {
    Names kinds;
    for (const std::string& name : classes) {
      if (IsKindAndNoClass(name)) {
        kinds.push_back(name);
      }
    }
    Names tables;
    for (const std::string& table : tables_) {
      if (path == input_ && !absl::StrContains(table, '/')) {
        tables.push_back(table);
      }
    }
    if (kinds.empty() || tables.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("folders in ", path, " (", ListNames(classes),
                     ") would become classes, but a class is rarely called ",
                     kinds[0], ", and ", advice_.MayHoldLabels(tables), "; ",
                     advice_.PackTable(tables),
                     "sort the images into one folder for each class, or ",
                     advice_.PassAsClasses(path), " if these are classes"));
  }

  // Checks folder `name`, one of several in `path` that would be classes.
  absl::Status CheckClass(const std::string& path, const std::string& name,
                          const ImageFolders& folder) const {
    if (!folder.images.stems.empty()) return absl::OkStatus();
    const Names names = FoldersIn(folder);
    const Names splits = SplitsAmong(names);
    const std::string kinds = WhyKinds(folder, names);
    if (kinds.empty() && splits.size() < 2) return absl::OkStatus();
    const std::string of_class = absl::StrCat(path, "/", name);
    std::string what_to_do = advice_.WriteParquet();
    if (kinds.empty()) {
      const bool ready = std::any_of(
          splits.begin(), splits.end(), [&](const std::string& split) {
            return Check(absl::StrCat(of_class, "/", split),
                         folder.folders.at(split))
                .ok();
          });
      what_to_do = ready ? OpenParts(of_class, folder, splits)
                         : absl::StrCat(
                               "move the images into one folder for each part "
                               "with one folder for each class in it, such as ",
                               path, "/", Example(splits), "/", name, ", and ",
                               verb_, " each part by itself");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "folders in ", of_class, " ",
        kinds.empty() ? absl::StrCat("have the names of parts of a dataset (",
                                     ListNames(splits), ")")
                      : kinds,
        " and would become one class, ", name, "; ", what_to_do, ", or ",
        advice_.PassAsClasses(path), " if ", name, " is a class"));
  }

  // Checks folder `name` in `path`, which has the name of a part and is beside
  // classes.
  absl::Status CheckPartAmongClasses(const std::string& path,
                                     const ImageFolders& folder,
                                     const std::string& name,
                                     bool some_classes_direct,
                                     Names* doubts) const {
    const ImageFolders& below = folder.folders.at(name);
    const bool ready = Check(absl::StrCat(path, "/", name), below).ok();
    const std::string how = ready
                                ? absl::StrCat(verb_, " it by itself (",
                                               advice_.PartArgument(path, name),
                                               advice_.Before(below), ")")
                                : "";
    if (!below.images.stems.empty() || !some_classes_direct) {
      doubts->push_back(
          absl::StrCat("folder ", name,
                       " becomes a class, although it has the name of a part "
                       "of a dataset; if it is a part, ",
                       ready ? how : "move it elsewhere"));
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path, "/", name,
        " has the name of a part of a dataset and contains its "
        "images in folders (",
        ListNames(FoldersIn(below)),
        "), while the folders beside it contain images directly: "
        "it would become a class; ",
        ready ? absl::StrCat(how, ", ") : "", "move it elsewhere to ", verb_,
        " the others, or ", advice_.PassAsClasses(path), " if it is a class"));
  }

  const std::string& input_;  // as the user gave it
  const Names tables_;        // paths within the input
  const FolderAdvice advice_;
  const std::string verb_;  // "pack" or "open"
};

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckClassFolders(
    const std::string& path, const ImageFolders& input,
    absl::Span<const std::string> tables, FolderUse use) {
  if (FoldersIn(input).empty()) return Names();
  return Layout(path, tables, use).Check(path, input);
}

}  // namespace millrace::storage
