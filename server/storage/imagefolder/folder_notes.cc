#include "server/storage/imagefolder/folder_notes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "server/storage/imagefolder/image_names.h"

namespace millrace::storage {
namespace {

void AddFirst(std::string entry, std::vector<std::string>* list) {
  if (list->size() < kMaxListed) list->push_back(std::move(entry));
}

void AddAllFirst(const std::vector<std::string>& entries,
                 std::vector<std::string>* list) {
  for (const std::string& entry : entries) AddFirst(entry, list);
}

}  // namespace

void FolderNotes::AddOther(std::string path) {
  ++other_count_;
  if (HasTableName(path)) AddFirst(path, &tables_);
  AddFirst(std::move(path), &other_);
}

void FolderNotes::AddHidden(std::string path) {
  ++hidden_count_;
  AddFirst(std::move(path), &hidden_);
}

void FolderNotes::AddEmpty(std::string path) {
  ++empty_count_;
  AddFirst(std::move(path), &empty_);
}

void FolderNotes::AddBad(std::string sentence) {
  ++bad_count_;
  AddFirst(std::move(sentence), &bad_);
}

void FolderNotes::Join(const FolderNotes& later) {
  other_count_ += later.other_count_;
  hidden_count_ += later.hidden_count_;
  empty_count_ += later.empty_count_;
  bad_count_ += later.bad_count_;
  AddAllFirst(later.other_, &other_);
  AddAllFirst(later.tables_, &tables_);
  AddAllFirst(later.hidden_, &hidden_);
  AddAllFirst(later.empty_, &empty_);
  AddAllFirst(later.bad_, &bad_);
}

std::string FolderNotes::BadFiles() const {
  return FirstOf(bad_, "; ", bad_count_);
}

std::vector<std::string> FolderNotes::Warnings() const {
  std::vector<std::string> warnings;
  if (other_count_ > 0) {
    warnings.push_back(absl::StrCat(
        CountText(other_count_, "file"),
        " left out (no .jpg, .jpeg, .png or .webp file in a class folder): ",
        FirstOf(other_, ", ", other_count_)));
  }
  if (hidden_count_ > 0) {
    warnings.push_back(
        absl::StrCat(hidden_count_, " hidden ",
                     hidden_count_ == 1 ? "file or folder" : "files or folders",
                     " left out (the name begins with a dot): ",
                     FirstOf(hidden_, ", ", hidden_count_)));
  }
  if (empty_count_ > 0) {
    warnings.push_back(
        absl::StrCat(CountText(empty_count_, "empty file"),
                     empty_count_ == 1 ? " becomes a damaged sample"
                                       : " become damaged samples",
                     ", for which a pipeline has its policy bad_samples: ",
                     FirstOf(empty_, ", ", empty_count_)));
  }
  if (bad_count_ > 0) {
    warnings.push_back(
        absl::StrCat(bad_count_, bad_count_ == 1 ? " bad file" : " bad files",
                     " left out: ", BadFiles()));
  }
  return warnings;
}

absl::Status EmptyClassesError(const std::vector<std::string>& folders,
                               absl::string_view what_to_do) {
  const bool one = folders.size() == 1;
  return absl::InvalidArgumentError(absl::StrCat(
      one ? "class folder "
          : absl::StrCat(folders.size(), " class folders contain no image: "),
      FirstOf(folders, ", ", static_cast<int64_t>(folders.size())),
      one ? " contains no image" : "", " (.jpg, .jpeg, .png or .webp); remove ",
      one ? "it" : "them", what_to_do));
}

}  // namespace millrace::storage
