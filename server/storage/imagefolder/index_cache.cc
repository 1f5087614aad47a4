#include "server/storage/imagefolder/index_cache.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/atomic_file.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_hash.h"
#include "server/storage/file_room.h"
#include "server/storage/imagefolder/folder_scan.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/imagefolder/listing_doubts.h"

namespace millrace::storage {
namespace {

// File systems note times of changes in steps of up to 2 s (FAT) or of one tick
// of the clock. A folder that changed within this time before it was listed may
// have changed again, unnoticed, after it was listed.
constexpr int64_t kTimeStepNanos = 2'000'000'000;

std::string FileOfIndex(const std::string& folder,
                        const std::string& cache_folder) {
  const Hash128 key = HashBytes(
      {reinterpret_cast<const uint8_t*>(folder.data()), folder.size()});
  return absl::StrCat(cache_folder, "/imagefolder-", HashToHex(key),
                      ".mrindex");
}

// The decoders that take part in the choice of files.
std::string DecodersOf(const operators::Operators* operators) {
  std::string text;
  if (operators == nullptr) return text;
  for (const operators::Operators::Entry& entry : operators->List()) {
    if (entry.kind != "decoder") continue;
    absl::StrAppend(&text, entry.ref.name(), " ", entry.ref.version(), " ",
                    entry.ref.library_hash(), "\n");
  }
  return text;
}

// Why the index does not describe the folder any more; empty: it does.
std::string WhyOutdated(const FolderIndex& index, const std::string& folder,
                        const std::string& decoders) {
  if (index.folder != folder) return "it is of another folder";
  if (index.rules != kListingRules) {
    return "another version of Millrace has written it";
  }
  if (index.decoders != decoders) return "the decoders of --operators differ";
  for (const FolderState& state : index.folders) {
    const std::string path =
        state.path.empty() ? folder : absl::StrCat(folder, "/", state.path);
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      return absl::StrCat("folder ", path, " cannot be found");
    }
    if (!state.SameAs(StateOf(state.path, info))) {
      return absl::StrCat("folder ", path, " has changed");
    }
    if (state.changed_nanos > index.listed_nanos - kTimeStepNanos) {
      return absl::StrCat("folder ", path,
                          " changed shortly before it was listed");
    }
  }
  return "";
}

// What a listing needs of the memory budget.
struct ListingNeeds {
  uint64_t files = 0;
  uint64_t folders = 0;
  uint64_t bytes = 0;
  uint64_t largest_file_bytes = 0;
};

absl::Status NoRoom(const ListingNeeds& needs, const OpenSourceOptions& options,
                    const std::string& folder) {
  const ByteBudget& budget = *options.metadata_budget;
  // The source takes the memory for its largest file next, so a budget for the
  // list alone would be refused again.
  const uint64_t all =
      needs.bytes + (options.read_budget == nullptr
                         ? 0
                         : FileRoom::Charge(needs.largest_file_bytes));
  const std::string advice =
      options.metadata_advice ? options.metadata_advice(all, nullptr) : "";
  return UsageError(absl::ResourceExhaustedError(absl::StrCat(
      "the list of ", CountText(needs.files, "file"), " in ",
      CountText(needs.folders, "folder"), " of ", folder, " needs ",
      FormatExactByteSize(needs.bytes),
      " of memory, and the memory budget has ",
      FormatExactByteSize(budget.capacity() - budget.used()),
      " for it: ", advice, advice.empty() ? "" : ", or ", "pack the folder")));
}

// Reserves the memory of the listing; `room` gives back what it had.
absl::Status Admit(const ListingNeeds& needs, const OpenSourceOptions& options,
                   const std::string& folder, ByteBudget::Reservation* room) {
  room->Release();
  if (options.metadata_budget == nullptr ||
      options.metadata_budget->TryReserve(needs.bytes, room)) {
    return absl::OkStatus();
  }
  return NoRoom(needs, options, folder);
}

// The index in `file`; absent: there is none that can be used. The log says why
// unless there is none at all.
absl::StatusOr<std::optional<FolderIndex>> ReadIndex(
    const std::string& file, const OpenSourceOptions& options,
    const std::string& folder, ByteBudget::Reservation* room) {
  struct stat info = {};  // stays so if the file cannot be read
  if (stat(file.c_str(), &info) != 0 && errno == ENOENT) return std::nullopt;
  // A file of any size may be there that is no index.
  absl::Status status;
  absl::StatusOr<std::string> start = ReadRegularFileStart(file, 64);
  status.Update(start.status());
  if (start.ok()) status.Update(CheckFolderIndexStart(*start));
  if (status.ok() && options.metadata_budget != nullptr &&
      !options.metadata_budget->TryReserve(static_cast<uint64_t>(info.st_size),
                                           room)) {
    // The listing says what it needs, which is not the size of this file.
    status = absl::ResourceExhaustedError(
        absl::StrCat("the memory budget has no room for its ",
                     FormatByteSize(static_cast<uint64_t>(info.st_size))));
  }
  if (status.ok()) {
    std::string bytes;
    status.Update(ReadRegularFile(file, &bytes));
    if (status.ok()) {
      absl::StatusOr<FolderIndex> index = DecodeFolderIndex(bytes);
      if (index.ok()) return std::optional<FolderIndex>(*std::move(index));
      status = index.status();
    }
  }
  MR_LOG(WARNING) << "the index " << file << " of " << folder
                  << " is not used: " << status.message()
                  << "; the folder is listed again";
  room->Release();
  return std::nullopt;
}

absl::StatusOr<FolderIndex> List(const std::string& folder,
                                 const OpenSourceOptions& options,
                                 ByteBudget::Reservation* room) {
  FolderIndex index;
  index.folder = folder;
  index.rules = kListingRules;
  index.decoders = DecodersOf(options.operators);
  index.listed_nanos = absl::ToUnixNanos(absl::Now());
  ScanOptions scan = {.use = FolderUse::kUri, .operators = options.operators};
  if (options.metadata_budget != nullptr) {
    const ByteBudget& budget = *options.metadata_budget;
    scan.max_memory_bytes = budget.capacity() - budget.used();
  }
  MR_ASSIGN_OR_RETURN(FolderListing listing, ScanImageFolder(folder, scan));
  const ListingNeeds needs = {.files = listing.file_count,
                              .folders = listing.folder_count,
                              .bytes = listing.memory_bytes,
                              .largest_file_bytes = listing.largest_file_bytes};
  if (needs.bytes > scan.max_memory_bytes) {
    return NoRoom(needs, options, folder);
  }
  const int64_t bad = listing.notes.bad_count();
  if (bad > 0) {
    return absl::DataLossError(absl::StrCat(
        bad == 1 ? "" : absl::StrCat(bad, " files cannot be read as images: "),
        listing.notes.BadFiles(), "; repair or remove ",
        bad == 1 ? "it" : "them",
        ", or pack the folder without such files (`millrace-data pack "
        "--format=imagefolder --skip_bad`)"));
  }
  const std::vector<std::string> empty =
      EmptyClasses(folder, listing.classes, listing.files);
  if (!empty.empty()) {
    return EmptyClassesError(
        empty,
        ", or pack the folder with classes without samples (`millrace-data "
        "pack --format=imagefolder --skip_bad`)");
  }
  MR_RETURN_IF_ERROR(Admit(needs, options, folder, room));
  index.warnings = listing.notes.Warnings();
  index.warnings.insert(index.warnings.end(), listing.doubts.begin(),
                        listing.doubts.end());
  const std::string shared = SharedStems(folder, listing.files, "read");
  if (!shared.empty()) index.warnings.push_back(shared);
  index.folders = std::move(listing.folders);
  index.files = std::move(listing.files);
  index.listing_sum = HashToHex(index.files.ListingSum());
  const absl::Duration took =
      absl::Now() - absl::FromUnixNanos(index.listed_nanos);
  MR_LOG(INFO) << folder << ": listed " << CountText(index.files.size(), "file")
               << " in " << CountText(index.folders.size(), "folder") << " in "
               << absl::FormatDuration(absl::Ceil(took, absl::Milliseconds(1)));
  return index;
}

void LogNotes(const FolderIndex& index, IndexUse use) {
  for (const std::string& warning : index.warnings) {
    MR_LOG(WARNING) << index.folder << ": " << warning;
  }
  if (use == IndexUse::kFresh || !index.content_sum.empty()) return;
  MR_LOG(INFO) << index.folder
               << ": the fingerprint is that of names, sizes and times of "
                  "modification; `millrace-data index --input="
               << index.folder
               << "` makes the fingerprint of the content, which copies of the "
                  "folder share";
}

}  // namespace

absl::StatusOr<std::string> RealFolder(const std::string& path) {
  char* const real = realpath(path.c_str(), nullptr);
  if (real == nullptr) {
    if (errno != ENOENT) return FileError(errno, "read folder", path);
    return absl::NotFoundError(absl::StrCat(
        "there is no folder ", path,
        "; name the folder that contains one folder of images for each class"));
  }
  std::string folder(real);
  free(real);
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) {
    return FileError(errno, "read folder", folder);
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is a file; imagefolder: needs the folder that contains one folder of "
        "images for each class"));
  }
  return folder;
}

absl::StatusOr<FolderIndex> FindFolderIndex(const std::string& folder,
                                            const OpenSourceOptions& options,
                                            IndexUse use,
                                            ByteBudget::Reservation* room) {
  const std::string cache_folder = CacheFolder(options.cache_dir);
  std::optional<FolderIndex> old;
  if (use == IndexUse::kCached && !cache_folder.empty()) {
    const std::string file = FileOfIndex(folder, cache_folder);
    MR_ASSIGN_OR_RETURN(old, ReadIndex(file, options, folder, room));
    if (old.has_value()) {
      const std::string why =
          WhyOutdated(*old, folder, DecodersOf(options.operators));
      if (why.empty()) {
        MR_LOG(INFO) << folder << ": " << CountText(old->files.size(), "file")
                     << " by the index " << file;
        LogNotes(*old, use);
        const FolderFiles& files = old->files;
        MR_RETURN_IF_ERROR(
            Admit({.files = static_cast<uint64_t>(files.size()),
                   .folders = old->folders.size(),
                   .bytes = ListingBytes(files, old->folders),
                   .largest_file_bytes = files.bytes(files.LargestFile())},
                  options, folder, room));
        return *std::move(old);
      }
      MR_LOG(INFO) << "the index " << file << " of " << folder
                   << " is outdated: " << why << "; the folder is listed again";
    }
  }
  std::string old_listing, old_content;
  int64_t old_size = 0;
  if (old.has_value()) {
    old_size = old->files.size();
    old_listing = old->listing_sum;
    old_content = old->content_sum;
    old.reset();
    room->Release();
  }
  MR_ASSIGN_OR_RETURN(FolderIndex index, List(folder, options, room));
  if (!old_content.empty()) {
    if (index.listing_sum == old_listing) {
      index.content_sum = old_content;
    } else if (options.keep_content_index) {
      if (index.files.size() != old_size) {
        return absl::DataLossError(absl::StrCat(
            folder, " is not what `millrace-data index` has read: the index ",
            FileOfIndex(folder, cache_folder),
            " has the hash of the content of ", CountText(old_size, "file"),
            ", and there ", index.files.size() == 1 ? "is " : "are ",
            CountText(index.files.size(), "file"),
            ": restore the folder, or run `millrace-data index --input=",
            folder, "` again"));
      }
      index.content_sum = old_content;
      return index;
    } else {
      MR_LOG(WARNING) << folder
                      << ": files have changed since `millrace-data index` has "
                         "read them, so the fingerprint of the content is not "
                         "known any more";
    }
  }
  if (use == IndexUse::kFresh) {
    // The caller saves it.
  } else if (cache_folder.empty()) {
    MR_LOG(INFO)
        << folder
        << ": the list of files is not kept, because there is no cache "
           "folder; --cache_dir=DIR names one";
  } else if (const auto saved = SaveFolderIndex(index, options.cache_dir);
             !saved.ok()) {
    MR_LOG(WARNING) << folder << ": the list of files is not kept: "
                    << saved.status().message()
                    << "; --cache_dir=DIR names another cache folder";
  }
  LogNotes(index, use);
  return index;
}

absl::StatusOr<std::string> SaveFolderIndex(const FolderIndex& index,
                                            const std::string& cache_dir) {
  MR_ASSIGN_OR_RETURN(const std::string cache_folder,
                      MakeCacheFolder(cache_dir));
  const std::string file = FileOfIndex(index.folder, cache_folder);
  RemoveLeftovers(file);
  MR_RETURN_IF_ERROR(WriteFileAtomically(file, EncodeFolderIndex(index),
                                         Lasts::kThroughCrash));
  return file;
}

std::string FolderIndexFile(const std::string& folder,
                            const std::string& cache_dir) {
  const std::string cache_folder = CacheFolder(cache_dir);
  if (cache_folder.empty()) return "";
  std::string file = FileOfIndex(folder, cache_folder);
  struct stat info;
  return stat(file.c_str(), &info) == 0 ? file : "";
}

void DropFolderIndex(const std::string& folder, const std::string& cache_dir) {
  const std::string cache_folder = CacheFolder(cache_dir);
  if (cache_folder.empty()) return;
  const std::string file = FileOfIndex(folder, cache_folder);
  if (unlink(file.c_str()) == 0) {
    MR_LOG(INFO)
        << "removed the index " << file << " of " << folder
        << ": it is outdated, and the next start lists the folder again";
  } else if (errno != ENOENT) {
    // For example, `millrace-data index` was run by another user.
    MR_LOG(ERROR)
        << FileError(errno, "remove the outdated index", file).message()
        << "; remove the file, or the next start serves " << folder
        << " by it again";
  }
}

}  // namespace millrace::storage
