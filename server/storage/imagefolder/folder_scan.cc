#include "server/storage/imagefolder/folder_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/first_of.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/thread.h"
#include "common/utf8.h"
#include "server/storage/imagefolder/image_names.h"

namespace millrace::storage {
namespace {

// A deeper folder is caused by a loop of links.
constexpr int kMaxDepth = 32;

// Number of PNGs in each folder whose channels are checked.
constexpr int kLookedAt = 4;

// A time beyond the years that 64 bits hold in nanoseconds (1677 to 2262),
// which file systems allow, wraps around: times are only compared.
int64_t Nanos(const struct timespec& time) {
  return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) *
                                  1'000'000'000 +
                              static_cast<uint64_t>(time.tv_nsec));
}

std::string Join(absl::string_view folder, absl::string_view name) {
  return folder.empty() ? std::string(name) : absl::StrCat(folder, "/", name);
}

struct Entry {
  std::string name;
  int error = 0;  // why nothing is known about it: an errno
  bool folder = false;
  bool regular = false;
  uint64_t bytes = 0;
  int64_t modified_nanos = 0;
};

struct Entries {
  std::vector<Entry> files;  // all that is no folder
  std::vector<Entry> folders;
  FolderState state;
};

// Part of a listing: of the input itself, or of one class folder.
class PartScan {
 public:
  // `memory`: of all parts together.
  PartScan(const std::string& input, const ScanOptions& options,
           std::atomic<uint64_t>* memory)
      : input_(input), options_(options), memory_(*memory) {}

  // The entries of folder `below` that are not hidden, in bytewise order.
  absl::StatusOr<Entries> List(const std::string& below) {
    const std::string path = below.empty() ? input_ : Join(input_, below);
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()),
                                                     closedir);
    struct stat info;
    if (folder == nullptr || fstat(dirfd(folder.get()), &info) != 0) {
      return FileError(errno, "read folder", path);
    }
    Entries entries;
    // Before the entries are read: a later change then makes it outdated.
    entries.state = StateOf(below, info);
    std::vector<std::string> hidden;
    errno = 0;
    while (const dirent* found = readdir(folder.get())) {
      Entry entry;
      entry.name = found->d_name;
      if (entry.name == "." || entry.name == "..") continue;
      if (absl::StartsWith(entry.name, ".")) {  // hidden, as for `ls`
        hidden.push_back(Join(below, entry.name));
        continue;
      }
      if (fstatat(dirfd(folder.get()), found->d_name, &info, 0) != 0) {
        entry.error = errno;
        // Not a link that leads nowhere: removed since readdir() has found it.
        if (entry.error == ENOENT && fstatat(dirfd(folder.get()), found->d_name,
                                             &info, AT_SYMLINK_NOFOLLOW) != 0) {
          errno = 0;
          continue;
        }
      } else {
        entry.folder = S_ISDIR(info.st_mode);
        entry.regular = S_ISREG(info.st_mode);
        entry.bytes = static_cast<uint64_t>(info.st_size);
        entry.modified_nanos = ModifiedNanos(info);
      }
      (entry.folder ? entries.folders : entries.files)
          .push_back(std::move(entry));
      errno = 0;
    }
    if (errno != 0) return FileError(errno, "read folder", path);
    const auto by_name = [](const Entry& a, const Entry& b) {
      return a.name < b.name;
    };
    std::sort(entries.files.begin(), entries.files.end(), by_name);
    std::sort(entries.folders.begin(), entries.folders.end(), by_name);
    std::sort(hidden.begin(), hidden.end());
    for (std::string& name : hidden) notes_.AddHidden(std::move(name));
    folders_.push_back(entries.state);
    return entries;
  }

  // Notes an entry about which nothing is known. It may be a folder of images,
  // so it is not merely left out.
  void AddUnknown(const Entry& entry, const std::string& full) {
    notes_.AddBad(
        entry.error == ENOENT
            ? absl::StrCat(full,
                           " is a link to a file or folder that does not exist")
            : std::string(FileError(entry.error, "read", full).message()));
  }

  // Scans class folder `name`.
  absl::Status ScanClass(const std::string& name) {
    class_ = name;
    return Scan(name, 1, &images_);
  }

  ListedFiles& files() { return files_; }
  FolderNotes& notes() { return notes_; }
  ImageFolders& images() { return images_; }
  std::vector<FolderState>& folders() { return folders_; }

 private:
  // Scans folder `below` recursively; records in `folder` where the images are.
  absl::Status Scan(const std::string& below, int depth, ImageFolders* folder) {
    if (depth > kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("folders are nested too deeply below ", input_, "/",
                       below, ": a link may form a loop"));
    }
    MR_ASSIGN_OR_RETURN(const Entries entries, List(below));
    if (!IsUtf8(below)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the name of folder ", input_, "/", below,
                       " is not UTF-8; rename it"));
    }
    for (const Entry& entry : entries.files) AddFile(below, entry, folder);
    folder->images.one_channel =
        folder->images.AreAllPng() && BeginWithOneChannel(below, entries.files);
    for (const Entry& entry : entries.folders) {
      MR_RETURN_IF_ERROR(Scan(absl::StrCat(below, "/", entry.name), depth + 1,
                              &folder->folders[entry.name]));
    }
    return absl::OkStatus();
  }

  void AddFile(const std::string& below, const Entry& entry,
               ImageFolders* folder) {
    const std::string path = absl::StrCat(below, "/", entry.name);
    const std::string full = absl::StrCat(input_, "/", path);
    if (entry.error != 0) {
      AddUnknown(entry, full);
      return;
    }
    if (!HasImageName(entry.name) && !IsOperatorsFile(full)) {
      if (HasForeignImageName(entry.name)) {
        notes_.AddBad(absl::StrCat(
            full, " has the name of an image format that ",
            options_.use == FolderUse::kUri ? "the server" : "pack",
            " does not read: convert it to .jpg, .png or .webp"));
      } else {
        notes_.AddOther(path);
      }
      return;
    }
    // A name is evidence of what the folders are, whatever the file is.
    AddImageName(entry.name, folder);
    if (!entry.regular) {
      const absl::Status why = ReadRegularFileStart(full, 1).status();
      notes_.AddBad(why.ok() ? absl::StrCat(full, " changes while it is read")
                             : std::string(why.message()));
    } else if (entry.bytes == 0) {
      notes_.AddBad(absl::StrCat(full, " ", WhyNoImage("")));
    } else if (entry.bytes > FolderFiles::kMaxFileBytes) {
      notes_.AddBad(absl::StrCat(full, " has ", entry.bytes,
                                 " bytes, which is too much for an image"));
    } else if (full.size() >= PATH_MAX) {
      notes_.AddBad(absl::StrCat("the path of file ", full, " has ",
                                 full.size(), " bytes, and the system opens ",
                                 "paths of at most ", PATH_MAX - 1));
    } else if (!IsUtf8(entry.name)) {
      notes_.AddBad(absl::StrCat("the name of file ", full, " is not UTF-8"));
    } else {
      const absl::string_view name =
          absl::string_view(path).substr(class_.size() + 1);
      const uint64_t more = FolderFiles::MemoryBytes(1, name.size());
      if (memory_.fetch_add(more, std::memory_order_relaxed) + more <=
          options_.max_memory_bytes) {
        files_.Add(name, entry.bytes, entry.modified_nanos);
      }
    }
  }

  // Notes the name unless the list does not fit into memory, when it is not
  // used any more.
  void AddImageName(const std::string& name, ImageFolders* folder) {
    if (memory_.load(std::memory_order_relaxed) <= options_.max_memory_bytes) {
      folder->images.Add(name);
    }
  }

  // Whether the first PNGs among `files` of folder `below` have one channel.
  bool BeginWithOneChannel(const std::string& below,
                           const std::vector<Entry>& files) const {
    int looked = 0;
    for (const Entry& entry : files) {
      if (!HasImageName(entry.name)) continue;
      const absl::StatusOr<std::string> start = ReadRegularFileStart(
          absl::StrCat(input_, "/", below, "/", entry.name), kImageStartBytes);
      if (!start.ok() || !IsOneChannelPng(*start)) return false;
      if (++looked == kLookedAt) break;
    }
    return looked > 0;
  }

  bool IsOperatorsFile(const std::string& full) const {
    if (options_.operators == nullptr) return false;
    const absl::StatusOr<std::string> start =
        ReadRegularFileStart(full, kImageStartBytes);
    return start.ok() && IsOperatorsImage(options_.operators, *start);
  }

  const std::string& input_;
  const ScanOptions& options_;
  std::atomic<uint64_t>& memory_;
  std::string class_;
  ListedFiles files_;
  FolderNotes notes_;
  ImageFolders images_;
  std::vector<FolderState> folders_;
};

// Error for an input without folders, which contains `files`.
absl::Status NoFolders(const std::string& input,
                       const std::vector<Entry>& files,
                       const FolderNotes& notes, FolderUse use) {
  const auto images = static_cast<uint64_t>(std::count_if(
      files.begin(), files.end(),
      [](const Entry& entry) { return HasImageName(entry.name); }));
  const std::string what = absl::StrCat(input, " contains no folders");
  if (images == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     "; an image folder contains one folder of images for "
                     "each class"));
  }
  const bool uri = use == FolderUse::kUri;
  const std::string tables = FirstOf(
      notes.tables(), ", ", static_cast<int64_t>(notes.tables().size()));
  return absl::InvalidArgumentError(absl::StrCat(
      what, ", but ", CountText(images, "image"),
      tables.empty()
          ? ""
          : absl::StrCat(", and ", tables, " may contain labels, which ",
                         uri ? "the server" : "pack", " does not read"),
      "; move the images into one folder for each class (", input,
      "/CLASS) and repeat the command, or write images and labels as Parquet, "
      "which millrace-server reads without pack (docs/formats.md)"));
}

bool HasDecoders(const operators::Operators* operators) {
  if (operators == nullptr) return false;
  for (const operators::Operators::Entry& entry : operators->List()) {
    if (entry.kind == "decoder") return true;
  }
  return false;
}

// A warning if names of classes differ only in upper and lower case, which a
// file system without such a difference may have made one; empty: they do not.
std::string SameButForCase(const std::vector<std::string>& classes) {
  absl::flat_hash_map<std::string, absl::string_view> seen;
  for (const std::string& name : classes) {
    const auto [other, is_new] =
        seen.emplace(absl::AsciiStrToLower(name), name);
    if (is_new) continue;
    return absl::StrCat("the class folders ", other->second, " and ", name,
                        " differ only in upper and lower case, and become two "
                        "classes");
  }
  return "";
}

// "cat/1" of "cat/1.jpg".
absl::string_view StemOf(absl::string_view path) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool suffix = dot != path.npos && (slash == path.npos || dot > slash);
  return suffix ? path.substr(0, dot) : path;
}

}  // namespace

FolderState StateOf(std::string path, const struct stat& info) {
  return {.path = std::move(path),
          .modified_nanos = Nanos(info.st_mtim),
          .changed_nanos = Nanos(info.st_ctim),
          .inode = info.st_ino};
}

int64_t ModifiedNanos(const struct stat& info) { return Nanos(info.st_mtim); }

absl::StatusOr<FolderListing> ScanImageFolder(const std::string& folder,
                                              const ScanOptions& given) {
  std::atomic<uint64_t> memory{0};
  // Files of other names are opened only if a decoder may know them.
  ScanOptions options = given;
  if (!HasDecoders(options.operators)) options.operators = nullptr;
  PartScan top(folder, options, &memory);
  MR_ASSIGN_OR_RETURN(const Entries entries, top.List(""));
  FolderListing listing;
  for (const Entry& entry : entries.files) {
    const std::string full = absl::StrCat(folder, "/", entry.name);
    if (entry.error == 0) {
      top.notes().AddOther(entry.name);
    } else if (entries.folders.empty() && entry.error != ENOENT) {
      return FileError(entry.error, "read", full);
    } else {
      top.AddUnknown(entry, full);
    }
  }
  if (entries.folders.empty()) {
    return NoFolders(folder, entries.files, top.notes(), options.use);
  }
  for (const Entry& entry : entries.folders) {
    listing.classes.push_back(entry.name);
  }
  const size_t count = listing.classes.size();
  std::deque<PartScan> parts;  // a PartScan does not move
  for (size_t i = 0; i < count; ++i) {
    parts.emplace_back(folder, options, &memory);
  }
  std::vector<absl::Status> results(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    // A class is begun only after all before it, so that the first error does
    // not depend on the threads.
    while (!failed) {
      const size_t i = next++;
      if (i >= count) return;
      results[i] = parts[i].ScanClass(listing.classes[i]);
      if (!results[i].ok()) failed = true;
    }
  };
  {
    std::vector<NamedThread> others;
    const size_t threads = std::min<size_t>(options.threads, count);
    for (size_t i = 1; i < threads; ++i) others.emplace_back("mr-list", work);
    work();
  }
  for (const absl::Status& result : results) MR_RETURN_IF_ERROR(result);

  ImageFolders images;
  listing.notes = std::move(top.notes());
  listing.folders = std::move(top.folders());
  for (size_t i = 0; i < count; ++i) {
    listing.notes.Join(parts[i].notes());
    for (FolderState& state : parts[i].folders()) {
      listing.folders.push_back(std::move(state));
    }
    images.folders[listing.classes[i]] = std::move(parts[i].images());
  }
  listing.memory_bytes = memory;
  if (listing.memory_bytes > options.max_memory_bytes) return listing;
  if (!options.labels_from_folders) {
    MR_ASSIGN_OR_RETURN(
        listing.doubts,
        CheckClassFolders(folder, images, listing.notes.tables(), options.use));
  }
  if (std::string doubt = SameButForCase(listing.classes); !doubt.empty()) {
    listing.doubts.push_back(std::move(doubt));
  }
  std::vector<size_t> order;  // of the paths
  for (size_t i = 0; i < count; ++i) {
    if (parts[i].files().size() > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&listing](size_t a, size_t b) {
    return absl::StrCat(listing.classes[a], "/") <
           absl::StrCat(listing.classes[b], "/");
  });
  uint64_t files = 0, name_bytes = 0;
  for (const size_t i : order) {
    files += static_cast<uint64_t>(parts[i].files().size());
    name_bytes += parts[i].files().names.size();
  }
  listing.files.Reserve(files, name_bytes);
  for (const size_t i : order) {
    MR_RETURN_IF_ERROR(listing.files.AddClass(
        listing.classes[i], static_cast<int64_t>(i), parts[i].files()));
    parts[i].files() = ListedFiles();  // frees the memory
  }
  return listing;
}

std::vector<std::string> EmptyClasses(const std::string& folder,
                                      const std::vector<std::string>& classes,
                                      const FolderFiles& files) {
  std::vector<bool> seen(classes.size());
  for (const FolderFiles::ClassRange& range : files.classes()) {
    seen[range.label] = true;
  }
  std::vector<std::string> empty;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (!seen[i]) empty.push_back(absl::StrCat(folder, "/", classes[i]));
  }
  return empty;
}

std::string SharedStems(const std::string& folder, const FolderFiles& files,
                        absl::string_view verb) {
  std::vector<std::string> first;
  int64_t shared = 0;
  for (const FolderFiles::ClassRange& range : files.classes()) {
    const int64_t end = range.first + range.count;
    absl::flat_hash_map<absl::string_view, int64_t> counts;
    for (int64_t i = range.first; i < end; ++i) {
      ++counts[StemOf(files.NameInClass(i))];
    }
    for (int64_t i = range.first; i < end; ++i) {
      const absl::string_view stem = StemOf(files.NameInClass(i));
      const int64_t count = std::exchange(counts[stem], 0);
      if (count < 2) continue;
      ++shared;
      if (first.size() == kMaxListed) continue;
      const std::string path = absl::StrCat(range.name, "/", stem);
      const size_t slash = path.rfind('/');
      first.push_back(absl::StrCat(count, " files share the stem ",
                                   path.substr(slash + 1), " in ", folder, "/",
                                   path.substr(0, slash)));
    }
  }
  if (shared == 0) return "";
  return absl::StrCat(FirstOf(first, "; ", shared), ": each file is ", verb,
                      " as a separate sample");
}

bool IsOperatorsImage(const operators::Operators* operators,
                      absl::string_view start) {
  return operators != nullptr &&
         operators->SniffedBy({reinterpret_cast<const uint8_t*>(start.data()),
                               start.size()}) != nullptr;
}

}  // namespace millrace::storage
