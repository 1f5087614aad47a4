#include "server/storage/imagefolder/folder_advice.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/shell_word.h"

namespace millrace::storage {
namespace {

// A table that csv: and `pack --format=csv` read.
std::vector<std::string>::const_iterator FindCsv(
    const std::vector<std::string>& tables) {
  return std::find_if(tables.begin(), tables.end(),
                      [](const std::string& table) {
                        return absl::EndsWithIgnoreCase(table, ".csv") ||
                               absl::EndsWithIgnoreCase(table, ".tsv");
                      });
}

}  // namespace

std::string FolderAdvice::AsClasses(const std::string& path) const {
  if (is_uri_) {
    return absl::StrCat(
        "`millrace-data pack --format=imagefolder --input=", ShellWord(path),
        " --labels_from_folders --output=lmdb:FILE`");
  }
  if (path == input_) return "--labels_from_folders";
  return Argument(path, " --labels_from_folders");
}

std::string FolderAdvice::PassAsClasses(const std::string& path) const {
  return absl::StrCat(is_uri_ ? "pack the folder with " : "pass ",
                      AsClasses(path));
}

std::string FolderAdvice::Argument(const std::string& path,
                                   absl::string_view more) const {
  if (is_uri_) return absl::StrCat("imagefolder:", path);
  return absl::StrCat("--input=", path, more,
                      by_split_ ? " without --split" : "");
}

std::string FolderAdvice::PartArgument(const std::string& path,
                                       const std::string& name) const {
  if (is_uri_) return Argument(absl::StrCat(path, "/", name));
  return absl::StrCat("--input=", path, " --split=", name);
}

std::string FolderAdvice::WriteParquet() const {
  return absl::StrCat(
      is_uri_ ? "an image folder contains" : "--format=imagefolder reads",
      " only images in class folders: write images with masks or other labels "
      "as Parquet (docs/formats.md)");
}

std::string FolderAdvice::InThisForm() const {
  return absl::StrCat(verb(), "ed in this form");
}

std::string FolderAdvice::MayHoldLabels(
    const std::vector<std::string>& tables) const {
  return absl::StrCat(ListNames(tables), " may contain labels, which ",
                      is_uri_ ? "imagefolder:"
                      : FindCsv(tables) == tables.end()
                          ? "pack"
                          : "--format=imagefolder",
                      " does not read");
}

std::string FolderAdvice::PackTable(
    const std::vector<std::string>& tables) const {
  const auto csv = FindCsv(tables);
  if (csv == tables.end()) return "";
  const std::string path = absl::StrCat(input_, "/", *csv);
  return absl::StrCat(is_uri_ ? absl::StrCat("write csv:", path)
                              : absl::StrCat("pack the table (--format=csv ",
                                             Argument(path), ")"),
                      " if it contains the paths of the images, or ");
}

std::string FolderAdvice::Before(const ImageFolders& folder) {
  const std::vector<std::string> empty =
      FoldersIn(folder, /*with_images=*/false);
  return empty.empty()
             ? ""
             : absl::StrCat(" after you remove its folders without images: ",
                            ListNames(empty));
}

}  // namespace millrace::storage
