// PartScan lists a part of an image folder: the input itself, or one class
// folder with all folders below it.
//
// Belongs to one thread; the parts of a listing share a ListingSize.
//
//   PartScan part("/data", options, size);
//   MR_RETURN_IF_ERROR(part.ScanClass("cat"));
//   Use(part.files(), part.notes());

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_PART_SCAN_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_PART_SCAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/operators/operators.h"
#include "server/storage/imagefolder/class_folders.h"
#include "server/storage/imagefolder/folder_entries.h"
#include "server/storage/imagefolder/folder_files.h"
#include "server/storage/imagefolder/folder_notes.h"
#include "server/storage/imagefolder/listing_size.h"

namespace millrace::storage {

class PartScan {
 public:
  struct Options {
    FolderUse use = FolderUse::kPack;
    // As ScanOptions::operators; null where none of them is a decoder: files of
    // other names are then not opened.
    const operators::Operators* decoders = nullptr;
  };

  // All must outlive the scan. `size`: of all parts together.
  PartScan(const std::string& input, const Options& options, ListingSize& size)
      : input_(input), options_(options), size_(size) {}
  PartScan(const PartScan&) = delete;
  PartScan& operator=(const PartScan&) = delete;

  // The entries of the input itself. Errors of ReadFolder() and ListingSize.
  absl::StatusOr<FolderEntries> ListInput();

  // Scans class folder `name`. Errors as ScanImageFolder().
  absl::Status ScanClass(const std::string& name);

  // Notes an entry about which nothing is known. It may be a folder of images,
  // so it is not merely left out.
  void AddUnknown(const FolderEntry& entry, const std::string& full);

  // What was found. Files and folders only as far as the list fits.
  ListedFiles& files() { return files_; }
  FolderNotes& notes() { return notes_; }
  ImageFolders& images() { return images_; }
  std::vector<FolderState>& folders() { return folders_; }

 private:
  // The entries of folder `below`. `*again`: it was listed on another path.
  absl::StatusOr<FolderEntries> List(const std::string& below, bool* again);
  // Scans folder `below` recursively; records in `folder` where the images are.
  absl::Status Scan(const std::string& below, int depth, ImageFolders* folder);
  // `again`: of the folder.
  void AddFile(const std::string& below, const FolderEntry& entry, bool again,
               ImageFolders* folder);
  // Whether the first PNGs among `files` of folder `below` have one channel.
  bool BeginWithOneChannel(const std::string& below,
                           const std::vector<FolderEntry>& files) const;
  bool IsDecodersFile(const std::string& full) const;

  const std::string& input_;
  const Options& options_;
  ListingSize& size_;
  std::string class_;
  ListedFiles files_;
  FolderNotes notes_;
  ImageFolders images_;
  std::vector<FolderState> folders_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_PART_SCAN_H_
