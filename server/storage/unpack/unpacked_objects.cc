#include "server/storage/unpack/unpacked_objects.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/thread.h"
#include "common/usage_error.h"
#include "server/storage/cache_folder.h"
#include "server/storage/unpack/object_file.h"

namespace millrace::storage {
namespace {

// Each has a decompressor with its window.
constexpr uint32_t kMaxThreads = 4;
// Threads that look for copies wait for storage more than they compute.
constexpr uint32_t kStatThreads = 8;
constexpr size_t kPerStatThread = 64;

// Calls `work` for each number below `count`, on up to `threads` threads, until
// one fails. The error is that of the lowest number that has failed.
absl::Status ForEach(size_t count, uint32_t threads,
                     const std::function<absl::Status(size_t)>& work) {
  std::atomic<size_t> next{0};
  Mutex mu;
  size_t failed = count;
  absl::Status status;
  std::atomic<bool> stop{false};
  const auto run = [&] {
    for (size_t i = next++; i < count && !stop; i = next++) {
      absl::Status done = work(i);
      if (done.ok()) continue;
      stop = true;
      MutexLock lock(mu);
      if (i < failed) {
        failed = i;
        status = std::move(done);
      }
    }
  };
  {
    std::vector<NamedThread> started;
    for (uint32_t i = 1; i < threads && i < count; ++i) {
      started.emplace_back("mr-unpack", run);
    }
    run();
  }
  return status;
}

absl::Status Changed(const std::string& name) {
  return absl::DataLossError(absl::StrCat(
      name,
      " was changed, replaced or removed after it was decompressed: restart "
      "the data server, the millrace-data command, or the program that started "
      "the server: the file is then decompressed again"));
}

// Of a compressed file, with the size of its raw bytes.
ObjectIdentity WithRawBytes(ObjectIdentity identity, const Unpacker& unpacker,
                            uint64_t raw_bytes) {
  identity.tag = absl::StrCat(unpacker.name(), " ", identity.bytes);
  identity.bytes = raw_bytes;
  return identity;
}

}  // namespace

absl::Status UnpackedObjects::StatAll() {
  return ForEach(
      order_.size(), order_.size() < kPerStatThread ? 1 : kStatThreads,
      [&](size_t i) -> absl::Status {
        MR_ASSIGN_OR_RETURN(order_[i]->identity, files_.Stat(order_[i]->name));
        return absl::OkStatus();
      });
}

absl::StatusOr<std::optional<uint64_t>> UnpackedObjects::RoomFor(
    const std::vector<Object*>& objects) {
  uint64_t room = 0;
  bool known = true;
  for (Object* const object : objects) {
    uint64_t bytes = 0;
    if (!object->packed.raw_sizes.empty()) {
      bytes = *absl::c_max_element(object->packed.raw_sizes);
    } else {
      ObjectFile file(files_, object->name, object->identity);
      auto claimed = object->packed.unpacker->ClaimedBytes(file);
      if (!claimed.ok()) {
        return absl::Status(
            claimed.status().code(),
            absl::StrCat(object->name, ": ", claimed.status().message()));
      }
      bytes = *claimed;
    }
    known &= bytes > 0;
    room += bytes;
  }
  return known ? std::optional<uint64_t>(room) : std::nullopt;
}

absl::Status UnpackedObjects::NeedsFolder(const PackedObjects& packed) {
  MR_ASSIGN_OR_RETURN(const std::optional<uint64_t> room, RoomFor(order_));
  const Object& first = *order_.front();
  return UsageError(absl::FailedPreconditionError(absl::StrCat(
      first.name, " is compressed (", first.packed.unpacker->name(),
      "), and samples of compressed files cannot be read at random: name a "
      "folder for decompressed copies with --cache_dir=DIR (",
      CountText(order_.size(), "compressed file"), " of the dataset need",
      order_.size() == 1 ? "s" : "",
      room.has_value() ? absl::StrCat(" ", FormatExactByteSize(*room))
                       : std::string(" room for the raw bytes"),
      " there)", packed.instead.empty() ? "" : ", or ", packed.instead)));
}

std::vector<UnpackedObjects::Object*> UnpackedObjects::FindCopies() {
  const absl::Status done =
      ForEach(order_.size(), order_.size() < kPerStatThread ? 1 : kStatThreads,
              [&](size_t i) {
                Object& object = *order_[i];
                MutexLock lock(object.mu);
                object.copy = copies_->Find(object.name, object.identity,
                                            *object.packed.unpacker);
                return absl::OkStatus();
              });
  static_cast<void>(done);
  std::vector<Object*> missing;
  for (Object* const object : order_) {
    MutexLock lock(object->mu);
    if (!object->copy.has_value()) missing.push_back(object);
  }
  return missing;
}

absl::Status UnpackedObjects::MakeCopies(const std::vector<Object*>& objects) {
  const uint32_t threads =
      std::clamp<uint32_t>(std::thread::hardware_concurrency(), 1, kMaxThreads);
  MR_ASSIGN_OR_RETURN(const uint64_t free, copies_->FreeBytes());
  std::vector<char> made(objects.size());
  absl::Status status =
      ForEach(objects.size(), threads, [&](size_t i) -> absl::Status {
        Object& object = *objects[i];
        bool by_us = false;
        // Others need room in the file system, too.
        auto copy = copies_->Make(object.name, object.identity, object.packed,
                                  free - free / 10, files_, &by_us);
        if (!copy.ok()) return copy.status();
        made[i] = by_us;
        MutexLock lock(object.mu);
        object.copy = *std::move(copy);
        return absl::OkStatus();
      });
  if (!absl::IsResourceExhausted(status)) return status;
  // A full disk harms others.
  for (size_t i = 0; i < objects.size(); ++i) {
    if (made[i]) copies_->Remove(objects[i]->name);
  }
  return UsageError(absl::ResourceExhaustedError(absl::StrCat(
      "cannot decompress the files of the dataset: ", status.message(),
      " (--cache_dir=DIR names another folder)")));
}

absl::Status UnpackedObjects::Prepare(const std::vector<std::string>& names,
                                      const PackedObjects& packed) {
  objects_.clear();
  order_.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    if (packed.objects[i].unpacker == nullptr) continue;
    auto& object = objects_[names[i]];
    if (object != nullptr) continue;  // twice in the list, which others refuse
    object = std::make_unique<Object>();
    object->name = names[i];
    object->packed = packed.objects[i];
    order_.push_back(object.get());
  }
  if (order_.empty()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(StatAll());
  if (cache_dir_.empty() || CacheFolder(cache_dir_).empty()) {
    return NeedsFolder(packed);
  }
  MR_ASSIGN_OR_RETURN(UnpackedCopies copies, UnpackedCopies::Open(cache_dir_));
  copies_.emplace(std::move(copies));
  const std::vector<Object*> missing = FindCopies();
  if (missing.empty()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::optional<uint64_t> room, RoomFor(missing));
  MR_ASSIGN_OR_RETURN(const uint64_t free, copies_->FreeBytes());
  const std::string what =
      absl::StrCat(CountText(missing.size(), "compressed file"), " of ",
                   FolderOf(missing.front()->name));
  if (room.value_or(0) > free) {
    return UsageError(absl::ResourceExhaustedError(absl::StrCat(
        what, " need", missing.size() == 1 ? "s " : " ",
        FormatExactByteSize(*room), " for decompressed copies in ",
        copies_->folder(), ", and its file system has ",
        FormatExactByteSize(free),
        " free: make room, or name another folder with --cache_dir=DIR")));
  }
  MR_LOG(INFO) << "decompressing " << what << " to " << copies_->folder()
               << (room.has_value() ? absl::StrCat(": the copies need ",
                                                   FormatByteSize(*room), "; ")
                   : missing.size() == 1
                       ? std::string("; its size is not known before; ")
                       : std::string("; their sizes are not known before; "))
               << FormatByteSize(free) << " are free";
  const absl::Time start = absl::Now();
  MR_RETURN_IF_ERROR(MakeCopies(missing));
  MR_LOG(INFO) << "decompressed " << what << " in "
               << absl::FormatDuration(
                      absl::Ceil(absl::Now() - start, absl::Milliseconds(1)));
  return absl::OkStatus();
}

absl::StatusOr<UnpackedCopy> UnpackedObjects::CopyOf(Object& object) {
  MutexLock lock(object.mu);
  return *object.copy;
}

absl::StatusOr<ObjectIdentity> UnpackedObjects::Stat(const std::string& name) {
  MR_ASSIGN_OR_RETURN(ObjectIdentity identity, files_.Stat(name));
  const auto found = objects_.find(name);
  if (found == objects_.end()) return identity;
  Object& object = *found->second;
  MR_ASSIGN_OR_RETURN(const UnpackedCopy copy, CopyOf(object));
  return WithRawBytes(std::move(identity), *object.packed.unpacker,
                      copy.identity.bytes);
}

absl::StatusOr<UnpackedCopy> UnpackedObjects::Renew(Object& object,
                                                    const std::string& old) {
  MutexLock lock(object.mu);
  // Another thread may have renewed it.
  if (object.copy->path != old) return *object.copy;
  MR_LOG(WARNING) << "the decompressed copy " << old << " of " << object.name
                  << " was removed or changed: it is made again";
  MR_ASSIGN_OR_RETURN(const uint64_t free, copies_->FreeBytes());
  bool made = false;
  MR_ASSIGN_OR_RETURN(object.copy,
                      copies_->Make(object.name, object.identity, object.packed,
                                    free, files_, &made));
  return *object.copy;
}

absl::Status UnpackedObjects::Read(const std::string& name,
                                   const ObjectIdentity& expected,
                                   uint64_t offset, absl::Span<uint8_t> data) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) {
    return files_.Read(name, expected, offset, data);
  }
  Object& object = *found->second;
  const absl::StatusOr<ObjectIdentity> now = files_.Stat(name);
  if (absl::IsUnavailable(now.status())) return now.status();
  MR_ASSIGN_OR_RETURN(UnpackedCopy copy, CopyOf(object));
  if (!now.ok() || !(*now == object.identity) ||
      !(expected == WithRawBytes(object.identity, *object.packed.unpacker,
                                 copy.identity.bytes))) {
    return Changed(name);
  }
  if (offset > expected.bytes || data.size() > expected.bytes - offset) {
    return absl::DataLossError(absl::StrCat(
        name, " has ", expected.bytes, " raw bytes, and ends before ",
        data.size(), " bytes from byte ", offset));
  }
  const absl::Status status =
      files_.Read(copy.path, copy.identity, offset, data);
  if (!absl::IsDataLoss(status)) return status;
  MR_ASSIGN_OR_RETURN(copy, Renew(object, copy.path));
  return files_.Read(copy.path, copy.identity, offset, data);
}

absl::Status UnpackedObjects::ReadUnchecked(const std::string& name,
                                            const ObjectIdentity& expected,
                                            uint64_t offset,
                                            absl::Span<uint8_t> data) {
  return objects_.contains(name)
             ? Read(name, expected, offset, data)
             : files_.ReadUnchecked(name, expected, offset, data);
}

absl::Status UnpackedObjects::CheckIdentity(const std::string& name,
                                            const ObjectIdentity& expected) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) return files_.CheckIdentity(name, expected);
  return files_.CheckIdentity(name, found->second->identity).ok()
             ? absl::OkStatus()
             : Changed(name);
}

}  // namespace millrace::storage
