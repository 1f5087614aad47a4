#include "server/storage/imagefolder/folder_advice.h"

#include "absl/strings/str_cat.h"

namespace millrace::storage {

std::string FolderAdvice::AsClasses(const std::string& path) const {
  if (is_uri_) {
    return absl::StrCat("`millrace-data pack --format=imagefolder --input=",
                        path, " --labels_from_folders`");
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
      is_uri_ ? "an image folder contains" : "pack reads",
      " only images in class folders: write images with masks or other labels "
      "as Parquet (docs/formats.md)");
}

std::string FolderAdvice::InThisForm() const {
  return absl::StrCat(verb(), "ed in this form");
}

std::string FolderAdvice::MayHoldLabels(
    const std::vector<std::string>& tables) const {
  return absl::StrCat(ListNames(tables), " may contain labels, which ",
                      is_uri_ ? "the server" : "pack", " does not read");
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
