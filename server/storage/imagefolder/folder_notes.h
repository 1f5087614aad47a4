// What a listing of an image folder leaves out or refuses: counts, and the
// first names of each kind, for sentences that a person reads.
//
// Belongs to one thread at a time; the notes of several threads are joined.
//
//   FolderNotes notes;
//   notes.AddHidden("cat/.git");
//   notes.AddBad("photos/cat/1.jpg is empty");
//   for (const std::string& sentence : notes.Warnings()) Print(sentence);

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_NOTES_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

class FolderNotes {
 public:
  // A file that is left out because its name is not that of an image.
  void AddOther(std::string path);
  void AddHidden(std::string path);
  // An empty file that is listed all the same.
  void AddEmpty(std::string path);
  // A file with an image's name that is no image: a whole sentence without a
  // full stop.
  void AddBad(std::string sentence);

  // Appends the notes of a later part of the listing.
  void Join(const FolderNotes& later);

  int64_t bad_count() const { return bad_count_; }
  // The first other files that may hold labels.
  const std::vector<std::string>& tables() const { return tables_; }
  // The first bad files: "A; B; and 5 more".
  std::string BadFiles() const;

  // A sentence for each kind that is there.
  std::vector<std::string> Warnings() const;

 private:
  // The first entries of each list, and the total number.
  std::vector<std::string> other_;
  int64_t other_count_ = 0;
  std::vector<std::string> tables_;
  std::vector<std::string> hidden_;
  int64_t hidden_count_ = 0;
  std::vector<std::string> empty_;
  int64_t empty_count_ = 0;
  std::vector<std::string> bad_;
  int64_t bad_count_ = 0;
};

// The error for class folders without an image, as "PATH/cat"; `what_to_do`
// ends the sentence after "remove it" or "remove them".
absl::Status EmptyClassesError(const std::vector<std::string>& folders,
                               absl::string_view what_to_do);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_NOTES_H_
