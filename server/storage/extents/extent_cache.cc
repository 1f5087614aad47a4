#include "server/storage/extents/extent_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/atomic_file.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/thread.h"
#include "common/usage_error.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_hash.h"

namespace millrace::storage {
namespace {

// Waits for storage more than it computes.
constexpr uint32_t kScanThreads = 8;

std::string FileOfIndex(const ExtentUri& uri, const std::string& cache_folder) {
  const std::string text =
      absl::StrCat(uri.ToString(), "\n", uri.record_options);
  const Hash128 key =
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return absl::StrCat(cache_folder, "/", uri.scheme, "-", HashToHex(key),
                      ".mrindex");
}

// "6 records in 2 files", or "6 files of a table".
std::string CountsText(int64_t samples, size_t objects,
                       const ExtentFormat& format) {
  return format.names_files()
             ? absl::StrCat(CountText(samples, "file"), " of a table")
             : absl::StrCat(CountText(samples, "record"), " in ",
                            CountText(objects, "file"));
}

// The first object that is not what the index has; empty: all are. Asks on
// several threads, because a network answers one question slowly.
std::string FirstChanged(const ExtentIndex& index, ObjectReader& objects) {
  std::atomic<int> next{0};
  Mutex mu;
  int first = index.objects();
  std::string why;
  const auto work = [&] {
    for (int i = next++; i < index.objects(); i = next++) {
      const ExtentIndex::Object object = index.object(i);
      const absl::StatusOr<ObjectIdentity> now = objects.Stat(object.name);
      if (now.ok() && *now == object.identity) continue;
      MutexLock lock(mu);
      if (i >= first) continue;
      first = i;
      why = now.ok() ? absl::StrCat(object.name, " has changed")
                     : std::string(now.status().message());
    }
  };
  {
    constexpr int kPerThread = 64;
    std::vector<NamedThread> threads;
    for (uint32_t i = 1;
         i < kScanThreads && static_cast<int>(i) * kPerThread < index.objects();
         ++i) {
      threads.emplace_back("mr-stat", work);
    }
    work();
  }
  return why;
}

// Whether the index has the rule of this program, with its fields.
bool HasRule(const ExtentIndex& index, const ExtentFormat& format) {
  const absl::StatusOr<std::unique_ptr<FieldRule>> rule =
      format.RestoreRule(index.head().rule());
  if (!rule.ok()) return false;
  Schema schema = index.head().schema();
  const int label = (*rule)->class_field();
  if (label >= schema.fields_size()) return false;
  if (label >= 0) {
    schema.mutable_fields(label)->set_num_classes(
        (*rule)->schema().fields(label).num_classes());
  }
  return schema.SerializeAsString() == (*rule)->schema().SerializeAsString();
}

// Why the index does not describe the objects any more; empty: it does.
std::string WhyOutdated(const ExtentIndex& index, const ExtentFormat& format,
                        const ExtentUri& uri, const ObjectList& list,
                        ObjectReader& objects) {
  const ExtentIndexHead& head = index.head();
  if (head.format() != uri.scheme || head.path() != uri.path ||
      head.options() != uri.record_options) {
    return "it is of another dataset";
  }
  if (!HasRule(index, format))
    return "another version of Millrace has written it";
  const auto count = static_cast<size_t>(index.objects());
  for (size_t i = 0; i < list.names.size() || i < count; ++i) {
    if (i < list.names.size() && i < count &&
        index.object(static_cast<int>(i)).name == list.names[i]) {
      continue;
    }
    const bool added = list.names.size() >= count;
    return absl::StrCat(
        added ? list.names[i] : index.object(static_cast<int>(i)).name,
        added ? " was added" : " was removed");
  }
  return FirstChanged(index, objects);
}

// The index in `file`; null: there is none that can be used. The log says why
// unless there is none at all.
std::unique_ptr<const ExtentIndex> ReadIndex(const std::string& file,
                                             const ExtentUri& uri) {
  struct stat info;
  if (stat(file.c_str(), &info) != 0 && errno == ENOENT) return nullptr;
  auto index = ExtentIndex::Open(file);
  if (index.ok()) return *std::move(index);
  MR_LOG(WARNING) << "the index " << file << " of " << uri.ToString()
                  << " is not used: " << index.status().message()
                  << "; the files are scanned again";
  return nullptr;
}

absl::Status Admit(const ExtentIndex& index, const ExtentFormat& format,
                   const ExtentUri& uri, const OpenSourceOptions& options,
                   ByteBudget::Reservation* room) {
  ByteBudget* const budget = options.metadata_budget;
  const uint64_t bytes = index.memory_bytes();
  if (budget == nullptr || budget->TryReserve(bytes, room)) {
    return absl::OkStatus();
  }
  const std::string advice =
      options.metadata_advice ? options.metadata_advice(bytes, nullptr) : "";
  return UsageError(absl::ResourceExhaustedError(absl::StrCat(
      "the index of ",
      CountsText(index.samples(), static_cast<size_t>(index.objects()), format),
      " of ", uri.ToString(), " needs ", FormatExactByteSize(bytes),
      " of memory, and the memory budget has ",
      FormatExactByteSize(budget->capacity() - budget->used()), " for it",
      advice.empty() ? "" : ": ", advice)));
}

// The columns of `old`, whose objects were only copied or had their attributes
// changed since; absent: there is more that differs.
std::optional<std::string> KeepContent(const ExtentIndex& old,
                                       const BuiltIndex& built) {
  const ExtentIndexHead& scanned = built.head;
  if (old.head().content_sum().empty() ||
      old.head().listing_sum() != scanned.listing_sum()) {
    return std::nullopt;
  }
  if (scanned.files()) {
    // The identities of the files are columns.
    ExtentIndexHead head = scanned;
    head.set_content_sum(old.head().content_sum());
    head.mutable_objects(0)->set_content_sum(old.head().content_sum());
    return EncodeExtentIndex(head, built.columns);
  }
  ExtentIndexHead head = old.head();
  for (int i = 0; i < head.objects_size(); ++i) {
    ExtentIndexObject& object = *head.mutable_objects(i);
    const std::string sum = object.content_sum();
    object = scanned.objects(i);
    object.set_content_sum(sum);
  }
  return old.WithHead(head);
}

// The columns of `built` with the content that `old` knows, so that it can be
// compared with the files. DataLoss: the files do not have the records of
// `old`.
absl::StatusOr<std::string> WithOldContent(const ExtentIndex& old,
                                           BuiltIndex built,
                                           const ExtentFormat& format,
                                           const ExtentUri& uri,
                                           const std::string& file) {
  const ExtentIndexHead& known = old.head();
  int differs = 0;  // the first object that does
  while (differs < old.objects() && differs < built.head.objects_size() &&
         known.objects(differs).samples() ==
             built.head.objects(differs).samples()) {
    ++differs;
  }
  const bool same =
      differs == old.objects() && differs == built.head.objects_size();
  if (!same || known.rule() != built.head.rule()) {
    return absl::DataLossError(absl::StrCat(
        uri.ToString(),
        " is not what `millrace-data index` has read: the index ", file,
        " has the hash of the content of ",
        CountsText(old.samples(), static_cast<size_t>(old.objects()), format),
        ", and there are ",
        CountsText(static_cast<int64_t>(built.columns.bytes.size()),
                   static_cast<size_t>(built.head.objects_size()), format),
        same ? " with other fields"
             : absl::StrCat("; the first difference is ",
                            differs < built.head.objects_size()
                                ? built.head.objects(differs).name()
                                : known.objects(differs).name()),
        ": restore the files, or run `millrace-data index ",
        uri.ShellArgument(), "` again"));
  }
  for (int i = 0; i < differs; ++i) {
    built.head.mutable_objects(i)->set_content_sum(
        known.objects(i).content_sum());
  }
  built.head.set_content_sum(known.content_sum());
  // The classes of a table are those of its labels; of records they are known
  // when the content was read.
  if (!built.head.files()) *built.head.mutable_schema() = known.schema();
  return EncodeExtentIndex(built.head, built.columns);
}

void WarnOfLostContent(const ExtentIndex& old, const BuiltIndex& built,
                       const ExtentUri& uri) {
  MR_LOG(WARNING) << uri.ToString() << ": the index had "
                  << CountText(old.samples(), "record")
                  << " with the fingerprint of their content, and the files "
                     "have "
                  << CountText(built.columns.bytes.size(), "record")
                  << " and are not those that `millrace-data index` has read: "
                     "the fingerprint of the content is not known any more; "
                     "`millrace-data index "
                  << uri.ShellArgument() << "` makes it again";
}

absl::StatusOr<std::string> Save(const std::string& bytes, const ExtentUri& uri,
                                 const std::string& cache_dir) {
  MR_ASSIGN_OR_RETURN(const std::string cache_folder,
                      MakeCacheFolder(cache_dir));
  const std::string file = FileOfIndex(uri, cache_folder);
  RemoveLeftovers(file);
  MR_RETURN_IF_ERROR(WriteFileAtomically(file, bytes, Lasts::kThroughCrash));
  return file;
}

absl::StatusOr<ObjectList> ListObjects(const ExtentFormat& format,
                                       const ExtentUri& uri,
                                       ObjectReader& objects) {
  // Wrong options come before a wrong path.
  absl::StatusOr<ObjectList> list = format.List(uri.path, uri.options);
  if (absl::IsInvalidArgument(list.status())) return UsageError(list.status());
  if (!list.ok()) return list;
  if (list->packed.any()) {
    MR_RETURN_IF_ERROR(objects.Prepare(list->names, list->packed));
  }
  // The index has the labels that this file gives.
  if (format.names_files() && !uri.classes_file.empty()) {
    list->names.push_back(uri.classes_file);
  }
  return list;
}

void LogNotes(const ExtentIndex& index, const ExtentFormat& format,
              const ExtentUri& uri, const ObjectList& list) {
  const auto rule = format.RestoreRule(index.head().rule());
  if (!rule.ok()) return;
  for (const std::string& note : format.Notes(list, uri.options, **rule)) {
    MR_LOG(WARNING) << uri.ToString() << ": " << note;
  }
}

void LogFingerprint(const ExtentIndex& index, const ExtentUri& uri) {
  if (!index.head().content_sum().empty()) return;
  MR_LOG(INFO) << uri.ToString()
               << ": the fingerprint is that of names, sizes and times of "
                  "modification; `millrace-data index "
               << uri.ShellArgument()
               << "` makes the fingerprint of the content, which copies of the "
                  "dataset share";
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ExtentIndex>> FindExtentIndex(
    const ExtentFormat& format, const ExtentUri& uri, ObjectReader& objects,
    const OpenSourceOptions& options, ByteBudget::Reservation* room) {
  MR_ASSIGN_OR_RETURN(const ObjectList list, ListObjects(format, uri, objects));
  const std::string cache_folder = CacheFolder(options.cache_dir);
  std::unique_ptr<const ExtentIndex> old;
  if (!cache_folder.empty()) {
    const std::string file = FileOfIndex(uri, cache_folder);
    old = ReadIndex(file, uri);
    if (old != nullptr) {
      const std::string why = WhyOutdated(*old, format, uri, list, objects);
      if (why.empty()) {
        MR_LOG(INFO) << uri.ToString() << ": "
                     << CountsText(old->samples(),
                                   static_cast<size_t>(old->objects()), format)
                     << " by the index " << file;
        LogNotes(*old, format, uri, list);
        LogFingerprint(*old, uri);
        MR_RETURN_IF_ERROR(Admit(*old, format, uri, options, room));
        return old;
      }
      MR_LOG(INFO) << "the index " << file << " of " << uri.ToString()
                   << " is outdated: " << why
                   << "; the files are scanned again";
    }
  }
  const absl::Time start = absl::Now();
  MR_ASSIGN_OR_RETURN(
      BuiltIndex built,
      BuildExtentIndex(format, uri, list, objects, {.threads = kScanThreads}));
  MR_LOG(INFO) << uri.ToString() << ": scanned "
               << CountsText(static_cast<int64_t>(built.columns.bytes.size()),
                             list.names.size(), format)
               << " in "
               << absl::FormatDuration(
                      absl::Ceil(absl::Now() - start, absl::Milliseconds(1)));
  std::string bytes;
  bool save = true;
  if (old != nullptr && !old->head().content_sum().empty()) {
    if (auto kept = KeepContent(*old, built); kept.has_value()) {
      bytes = *std::move(kept);
      MR_LOG(WARNING)
          << uri.ToString()
          << ": files were copied, replaced or had their attributes changed "
             "since `millrace-data index` has read them, but their sizes, "
             "times of modification and records are the same: the fingerprint "
             "of the content is kept without reading it again; `millrace-data "
             "verify "
          << uri.ShellArgument() << "` reads it";
    } else if (options.keep_content_index && !HasRule(*old, format)) {
      MR_LOG(WARNING) << "the index " << FileOfIndex(uri, cache_folder)
                      << " has the hash of the content as another version of "
                         "Millrace reads it: it is not compared; "
                         "`millrace-data index "
                      << uri.ShellArgument() << "` makes it again";
      save = false;
    } else if (options.keep_content_index) {
      MR_ASSIGN_OR_RETURN(bytes,
                          WithOldContent(*old, std::move(built), format, uri,
                                         FileOfIndex(uri, cache_folder)));
      save = false;
    } else {
      WarnOfLostContent(*old, built, uri);
    }
  }
  old.reset();
  if (bytes.empty()) bytes = EncodeExtentIndex(built.head, built.columns);
  built = {};
  std::unique_ptr<const ExtentIndex> index;
  if (cache_folder.empty()) {
    MR_LOG(INFO) << uri.ToString()
                 << ": the index is not kept, because there is no cache "
                    "folder; --cache_dir=DIR names one";
  } else if (save) {
    const absl::StatusOr<std::string> file =
        Save(bytes, uri, options.cache_dir);
    if (file.ok()) {
      auto mapped = ExtentIndex::Open(*file);
      if (mapped.ok()) index = *std::move(mapped);
    } else {
      MR_LOG(WARNING) << uri.ToString()
                      << ": the index is not kept: " << file.status().message()
                      << "; --cache_dir=DIR names another cache folder";
    }
  }
  // Another process may have replaced the file meanwhile; what it wrote is as
  // good, but not of the objects that were checked here.
  if (index == nullptr ||
      !WhyOutdated(*index, format, uri, list, objects).empty()) {
    MR_ASSIGN_OR_RETURN(index, ExtentIndex::FromBytes(std::move(bytes)));
  }
  LogNotes(*index, format, uri, list);
  LogFingerprint(*index, uri);
  MR_RETURN_IF_ERROR(Admit(*index, format, uri, options, room));
  return index;
}

absl::StatusOr<std::unique_ptr<const ExtentIndex>> MakeExtentIndex(
    const ExtentFormat& format, const ExtentUri& uri, ObjectReader& objects,
    const std::string& cache_dir, const BuildOptions& options,
    std::string* file) {
  MR_ASSIGN_OR_RETURN(const ObjectList list, ListObjects(format, uri, objects));
  // Before the records are read, which takes long.
  MR_ASSIGN_OR_RETURN(const std::string cache_folder,
                      MakeCacheFolder(cache_dir));
  std::unique_ptr<const ExtentIndex> old;
  if (!options.content) {
    // The content hash took a read of everything.
    *file = FileOfIndex(uri, cache_folder);
    old = ReadIndex(*file, uri);
    if (old != nullptr && !old->head().content_sum().empty() &&
        WhyOutdated(*old, format, uri, list, objects).empty()) {
      LogNotes(*old, format, uri, list);
      return old;
    }
  }
  MR_ASSIGN_OR_RETURN(const BuiltIndex built,
                      BuildExtentIndex(format, uri, list, objects, options));
  std::optional<std::string> kept;
  if (old != nullptr && !old->head().content_sum().empty()) {
    kept = KeepContent(*old, built);
    if (!kept.has_value()) WarnOfLostContent(*old, built, uri);
  }
  std::string bytes = kept.has_value()
                          ? *std::move(kept)
                          : EncodeExtentIndex(built.head, built.columns);
  MR_ASSIGN_OR_RETURN(*file, Save(bytes, uri, cache_dir));
  MR_ASSIGN_OR_RETURN(auto index, ExtentIndex::FromBytes(std::move(bytes)));
  LogNotes(*index, format, uri, list);
  return index;
}

void DropExtentIndex(const ExtentIndex& index, const ExtentUri& uri,
                     const std::string& cache_dir) {
  const std::string cache_folder = CacheFolder(cache_dir);
  if (cache_folder.empty()) return;
  const std::string file = FileOfIndex(uri, cache_folder);
  const auto now = ExtentIndex::Open(file);
  if (!now.ok() || (*now)->checksum() != index.checksum()) return;
  if (unlink(file.c_str()) == 0) {
    const std::string removed =
        absl::StrCat("removed the index ", file, " of ", uri.ToString(),
                     ": it is outdated, and the next start makes a new one");
    if (index.head().content_sum().empty()) {
      MR_LOG(INFO) << removed;
    } else {
      MR_LOG(WARNING) << removed
                      << ", with the fingerprint of the content if "
                         "`millrace-data index "
                      << uri.ShellArgument() << "` makes it";
    }
  } else if (errno != ENOENT) {
    // For example, `millrace-data index` was run by another user.
    MR_LOG(ERROR)
        << FileError(errno, "remove the outdated index", file).message()
        << "; remove the file, or the next start serves " << uri.ToString()
        << " by it again";
  }
}

}  // namespace millrace::storage
