#include "server/storage/imagefolder/folder_scan.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "common/thread.h"
#include "server/storage/imagefolder/folder_advice.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/imagefolder/listing_doubts.h"
#include "server/storage/imagefolder/listing_size.h"
#include "server/storage/imagefolder/part_scan.h"

namespace millrace::storage {
namespace {

// Error for an input without folders, which contains `files`.
absl::Status NoFolders(const std::string& input,
                       const std::vector<FolderEntry>& files,
                       const FolderNotes& notes, FolderUse use) {
  const auto images = static_cast<uint64_t>(std::count_if(
      files.begin(), files.end(),
      [](const FolderEntry& entry) { return HasImageName(entry.name); }));
  const std::string what = absl::StrCat(input, " contains no folders");
  if (images == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     "; an image folder contains one folder of images for "
                     "each class"));
  }
  const FolderAdvice advice(input, use);
  const std::vector<std::string>& tables = notes.tables();
  return absl::InvalidArgumentError(absl::StrCat(
      what, ", but ", CountText(images, "image"),
      tables.empty() ? ""
                     : absl::StrCat(", and ", advice.MayHoldLabels(tables)),
      "; ", advice.PackTable(tables),
      "move the images into one folder for each class (", input,
      "/CLASS) and repeat the command, or write their paths and labels into a "
      "table (csv:PATH), or images and labels as Parquet, which "
      "millrace-server reads without pack (docs/formats.md)"));
}

bool HasDecoders(const operators::Operators* operators) {
  if (operators == nullptr) return false;
  for (const operators::Operators::Entry& entry : operators->List()) {
    if (entry.kind == "decoder") return true;
  }
  return false;
}

}  // namespace

uint64_t ListingBytes(const FolderFiles& files,
                      const std::vector<FolderState>& folders) {
  uint64_t bytes = files.memory_bytes();
  for (const FolderState& state : folders) {
    bytes += ListingSize::FolderBytes(state.path.size());
  }
  return bytes;
}

absl::StatusOr<FolderListing> ScanImageFolder(const std::string& folder,
                                              const ScanOptions& options) {
  ListingSize size(folder, options.max_memory_bytes);
  const PartScan::Options of_parts = {
      .use = options.use,
      .decoders = HasDecoders(options.operators) ? options.operators : nullptr};
  PartScan top(folder, of_parts, size);
  MR_ASSIGN_OR_RETURN(const FolderEntries entries, top.ListInput());
  FolderListing listing;
  for (const FolderEntry& entry : entries.files) {
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
  for (const FolderEntry& entry : entries.folders) {
    listing.classes.push_back(entry.name);
  }
  const size_t count = listing.classes.size();
  std::deque<PartScan> parts;  // a PartScan does not move
  for (size_t i = 0; i < count; ++i) {
    parts.emplace_back(folder, of_parts, size);
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
  listing.memory_bytes = size.bytes();
  listing.file_count = size.files();
  listing.folder_count = size.folders();
  listing.largest_file_bytes = size.largest_file();
  if (!size.fits()) {
    listing.folders.clear();
    return listing;
  }
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

}  // namespace millrace::storage
