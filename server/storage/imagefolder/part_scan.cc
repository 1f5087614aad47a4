#include "server/storage/imagefolder/part_scan.h"

#include <limits.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/file_error.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/imagefolder/operators_image.h"

namespace millrace::storage {
namespace {

// A deeper folder is caused by a loop of links.
constexpr int kMaxDepth = 32;

// Number of PNGs in each folder whose channels are checked.
constexpr int kLookedAt = 4;

std::string Join(absl::string_view folder, absl::string_view name) {
  return folder.empty() ? std::string(name) : absl::StrCat(folder, "/", name);
}

}  // namespace

absl::StatusOr<FolderEntries> PartScan::ListInput() {
  bool again = false;
  return List("", &again);
}

absl::Status PartScan::ScanClass(const std::string& name) {
  class_ = name;
  return Scan(name, 1, &images_);
}

absl::StatusOr<FolderEntries> PartScan::List(const std::string& below,
                                             bool* again) {
  const std::string path = below.empty() ? input_ : Join(input_, below);
  MR_ASSIGN_OR_RETURN(FolderEntries entries, ReadFolder(path, below));
  MR_ASSIGN_OR_RETURN(
      *again, size_.AddFolder(below, entries.device, entries.state.inode));
  for (const std::string& name : entries.hidden) {
    notes_.AddHidden(Join(below, name));
  }
  if (size_.fits()) folders_.push_back(entries.state);
  return entries;
}

void PartScan::AddUnknown(const FolderEntry& entry, const std::string& full) {
  notes_.AddBad(
      entry.error == ENOENT
          ? absl::StrCat(full,
                         " is a link to a file or folder that does not exist")
          : std::string(FileError(entry.error, "read", full).message()));
}

absl::Status PartScan::Scan(const std::string& below, int depth,
                            ImageFolders* folder) {
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("folders are nested too deeply below ", input_, "/", below,
                     ": a link may form a loop"));
  }
  bool again = false;
  MR_ASSIGN_OR_RETURN(const FolderEntries entries, List(below, &again));
  if (!IsUtf8(below)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the name of folder ", input_, "/", below, " is not UTF-8; rename it"));
  }
  for (const FolderEntry& entry : entries.files) {
    AddFile(below, entry, again, folder);
  }
  folder->images.one_channel =
      folder->images.AreAllPng() && BeginWithOneChannel(below, entries.files);
  for (const FolderEntry& entry : entries.folders) {
    // Of a list that does not fit, nothing is kept.
    ImageFolders unused;
    MR_RETURN_IF_ERROR(
        Scan(absl::StrCat(below, "/", entry.name), depth + 1,
             size_.fits() ? &folder->folders[entry.name] : &unused));
  }
  return absl::OkStatus();
}

void PartScan::AddFile(const std::string& below, const FolderEntry& entry,
                       bool again, ImageFolders* folder) {
  const std::string path = absl::StrCat(below, "/", entry.name);
  const std::string full = absl::StrCat(input_, "/", path);
  if (entry.error != 0) {
    AddUnknown(entry, full);
    return;
  }
  const bool served = options_.use == FolderUse::kUri;
  if (!HasImageName(entry.name) && !IsDecodersFile(full)) {
    if (HasForeignImageName(entry.name)) {
      notes_.AddBad(
          absl::StrCat(full, " has the name of an image format that ",
                       served ? "the server" : "pack",
                       " does not read: convert it to .jpg, .png or .webp"));
    } else {
      notes_.AddOther(path);
    }
    return;
  }
  // A name is evidence of what the folders are, whatever the file is.
  if (size_.fits()) folder->images.Add(entry.name);
  if (!entry.regular) {
    const absl::Status why = ReadRegularFileStart(full, 1).status();
    notes_.AddBad(why.ok() ? absl::StrCat(full, " changes while it is read")
                           : std::string(why.message()));
  } else if (entry.bytes == 0 && !served) {
    notes_.AddBad(absl::StrCat(full, " ", WhyNoImage("")));
  } else if (entry.bytes > FolderFiles::kMaxFileBytes) {
    notes_.AddBad(absl::StrCat(full, " has ", entry.bytes,
                               " bytes, which is too much for an image"));
  } else if (full.size() >= PATH_MAX) {
    notes_.AddBad(absl::StrCat("the path of file ", full, " has ", full.size(),
                               " bytes, and the system opens ",
                               "paths of at most ", PATH_MAX - 1));
  } else if (!IsUtf8(entry.name)) {
    notes_.AddBad(absl::StrCat("the name of file ", full, " is not UTF-8"));
  } else {
    // Like any other file that is no image, it is a damaged sample when it is
    // read: the job has a policy for these.
    if (entry.bytes == 0) notes_.AddEmpty(path);
    const absl::string_view name =
        absl::string_view(path).substr(class_.size() + 1);
    if (size_.AddFile(name, entry.bytes, again)) {
      files_.Add(name, entry.bytes, entry.modified_nanos);
    }
  }
}

bool PartScan::BeginWithOneChannel(
    const std::string& below, const std::vector<FolderEntry>& files) const {
  int looked = 0;
  for (const FolderEntry& entry : files) {
    if (!HasImageName(entry.name)) continue;
    const absl::StatusOr<std::string> start = ReadRegularFileStart(
        absl::StrCat(input_, "/", below, "/", entry.name), kImageStartBytes);
    if (!start.ok() || !IsOneChannelPng(*start)) return false;
    if (++looked == kLookedAt) break;
  }
  return looked > 0;
}

bool PartScan::IsDecodersFile(const std::string& full) const {
  if (options_.decoders == nullptr) return false;
  const absl::StatusOr<std::string> start =
      ReadRegularFileStart(full, kImageStartBytes);
  return start.ok() && IsOperatorsImage(options_.decoders, *start);
}

}  // namespace millrace::storage
