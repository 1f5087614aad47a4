// What errors and warnings about the folders of an image folder suggest: how to
// name another folder, and what is possible besides.
//
// It decides nothing: class_folders.cc does. Immutable; safe from any thread.
//
//   FolderAdvice advice("/data", FolderUse::kUri);
//   advice.Argument("/data/train")  ->  "imagefolder:/data/train"

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_ADVICE_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_ADVICE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/storage/imagefolder/image_folders.h"

namespace millrace::storage {

// How the user named the folder, and so how advice names another one.
enum class FolderUse {
  kPack,       // `millrace-data pack --input=`
  kPackSplit,  // the same with --split
  kUri,        // imagefolder:PATH
};

class FolderAdvice {
 public:
  // `input`: as the user gave it; must outlive the object.
  FolderAdvice(const std::string& input, FolderUse use)
      : input_(input),
        is_uri_(use == FolderUse::kUri),
        by_split_(use == FolderUse::kPackSplit) {}

  // What the command does with the folder: "pack" or "open".
  std::string verb() const { return is_uri_ ? "open" : "pack"; }

  // The flag, or the command, that declares the folders in `path` to be
  // classes.
  std::string AsClasses(const std::string& path) const;
  // The same as a part of a sentence: "pass --labels_from_folders".
  std::string PassAsClasses(const std::string& path) const;

  // What names the folder: a flag with its value, or a URI.
  std::string Argument(const std::string& path,
                       absl::string_view more = "") const;
  // The same for the part `name` of the dataset in `path`.
  std::string PartArgument(const std::string& path,
                           const std::string& name) const;

  // "--format=imagefolder reads only images in class folders: write ..."
  std::string WriteParquet() const;
  // "packed in this form"
  std::string InThisForm() const;
  // "a.json may contain labels, which pack does not read"
  std::string MayHoldLabels(const std::vector<std::string>& tables) const;
  // The beginning of a sentence that ends with other advice: "pack the table
  // (--format=csv --input=/data/a.csv) if it contains the paths of the images,
  // or "; empty: no table is CSV or TSV. Paths are relative to the input.
  std::string PackTable(const std::vector<std::string>& tables) const;

  // What the user must do with `folder` before the command can read it.
  static std::string Before(const ImageFolders& folder);

 private:
  const std::string& input_;
  const bool is_uri_;
  const bool by_split_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_ADVICE_H_
