#include "server/storage/unpack/unpacked_copies.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/atomic_file.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/logging.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/unique_fd.h"
#include "common/write_bytes.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_hash.h"
#include "server/storage/little_endian.h"
#include "server/storage/unpack/object_file.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kFolder = "unpacked";
constexpr absl::string_view kDescription = "copy";
constexpr absl::string_view kLock = "lock";
constexpr absl::string_view kMagic = "MRUNPACK";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMaxDescriptionBytes = 64 << 10;
constexpr absl::Duration kLockInterval = absl::Milliseconds(20);

int64_t Nanos(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

ObjectIdentity IdentityOf(const struct stat& info) {
  return {.bytes = static_cast<uint64_t>(info.st_size),
          .modified_nanos = Nanos(info.st_mtim),
          .changed_nanos = Nanos(info.st_ctim),
          .inode = info.st_ino};
}

void AppendIdentity(const ObjectIdentity& identity, std::string* out) {
  AppendU64(identity.bytes, out);
  AppendU64(static_cast<uint64_t>(identity.modified_nanos), out);
  AppendU64(static_cast<uint64_t>(identity.changed_nanos), out);
  AppendU64(identity.inode, out);
  AppendText(identity.tag, out);
}

ObjectIdentity ReadIdentity(LittleEndianReader& reader) {
  ObjectIdentity identity;
  identity.bytes = reader.U64();
  identity.modified_nanos = static_cast<int64_t>(reader.U64());
  identity.changed_nanos = static_cast<int64_t>(reader.U64());
  identity.inode = reader.U64();
  identity.tag = std::string(reader.Text());
  return identity;
}

std::string Describe(const std::string& name, const ObjectIdentity& packed,
                     const Unpacker& unpacker, absl::string_view file,
                     const ObjectIdentity& copy) {
  std::string content;
  AppendText(name, &content);
  AppendIdentity(packed, &content);
  AppendText(unpacker.name(), &content);
  AppendText(file, &content);
  AppendIdentity(copy, &content);
  std::string text(kMagic);
  AppendU32(kVersion, &text);
  AppendU64(XXH3_64bits(content.data(), content.size()), &text);
  return text + content;
}

// The name of the copy's file and its identity; false: the description is
// damaged or of another file, version or unpacker.
bool ParseDescription(absl::string_view text, const std::string& name,
                      const ObjectIdentity& packed, const Unpacker& unpacker,
                      std::string* file, ObjectIdentity* copy) {
  if (!absl::ConsumePrefix(&text, kMagic)) return false;
  LittleEndianReader head(text);
  const uint32_t version = head.U32();
  const uint64_t sum = head.U64();
  if (!head.ok() || version != kVersion) return false;
  text.remove_prefix(sizeof(version) + sizeof(sum));
  if (XXH3_64bits(text.data(), text.size()) != sum) return false;
  LittleEndianReader reader(text);
  if (reader.Text() != name) return false;
  if (!(ReadIdentity(reader) == packed)) return false;
  if (reader.Text() != unpacker.name()) return false;
  *file = std::string(reader.Text());
  *copy = ReadIdentity(reader);
  return reader.AtEnd() && !file->empty() && !absl::StrContains(*file, '/');
}

std::string RandomName() {
  std::random_device random;
  return absl::StrCat(
      absl::Hex(uint64_t{random()} << 32 | random(), absl::kZeroPad16));
}

absl::Status CheckStopped() {
  return StopSignals::signal() == 0
             ? absl::OkStatus()
             : absl::CancelledError("stopped by a signal");
}

// Holds the lock of a folder, which exists then. Without locks in the file
// system, each process makes its own copy, and the last description counts.
class FolderLock {
 public:
  static absl::StatusOr<FolderLock> Take(const std::string& folder,
                                         const std::string& name) {
    const std::string path = JoinPath(folder, kLock);
    for (bool waited = false;;) {
      if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
        return FileError(errno, "create folder", folder);
      }
      UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
      if (!fd.ok()) {
        if (errno == ENOENT) continue;  // another one has removed the folder
        return FileError(errno, "write", path);
      }
      // A blocked call would not notice a request to stop.
      while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 &&
             (errno == EWOULDBLOCK || errno == EINTR)) {
        if (!std::exchange(waited, true)) {
          MR_LOG(INFO) << "waits until another process or thread has "
                          "decompressed "
                       << name;
        }
        MR_RETURN_IF_ERROR(CheckStopped());
        absl::SleepFor(kLockInterval);
      }
      // Who held the lock before may have removed the folder.
      struct stat held;
      struct stat now;
      if (fstat(fd.get(), &held) == 0 && stat(path.c_str(), &now) == 0 &&
          held.st_ino == now.st_ino) {
        return FolderLock(std::move(fd));
      }
    }
  }

 private:
  explicit FolderLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Removes everything in the folder but the lock.
void RemoveCopies(const std::string& folder) {
  const auto names = NamesIn(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name != kLock) unlink(JoinPath(folder, name).c_str());
  }
}

// The lock must be held.
void RemoveAll(const std::string& folder) {
  RemoveCopies(folder);
  unlink(JoinPath(folder, kLock).c_str());
  rmdir(folder.c_str());
}

class FileSink final : public RawSink {
 public:
  FileSink(int fd, const std::string& path, uint64_t limit)
      : fd_(fd), path_(path), limit_(limit) {}

  absl::Status Write(absl::Span<const uint8_t> bytes) override {
    if (bytes.size() > limit_ - written_) {
      too_many_ = true;
      return absl::DataLossError("too many bytes");
    }
    written_ += bytes.size();
    status_ = CheckStopped();
    MR_RETURN_IF_ERROR(status_);
    absl::string_view rest(reinterpret_cast<const char*>(bytes.data()),
                           bytes.size());
    status_ = WriteBytes(fd_, path_, &rest);
    return status_;
  }

  bool too_many() const { return too_many_; }
  uint64_t written() const { return written_; }
  // Of the disk; or a request to stop.
  const absl::Status& status() const { return status_; }

 private:
  const int fd_;
  const std::string& path_;
  const uint64_t limit_;
  uint64_t written_ = 0;
  bool too_many_ = false;
  absl::Status status_;
};

absl::Status Damaged(const std::string& name, const Unpacker& unpacker,
                     absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(name, " is damaged: the ", unpacker.name(), " file ", why,
                   ": copy it again, or write the dataset again"));
}

// Decompresses to the open file.
absl::Status UnpackTo(int fd, const std::string& path, const std::string& name,
                      const ObjectIdentity& identity,
                      const PackedObject& packed, uint64_t max_bytes,
                      ObjectReader& files) {
  const std::vector<uint64_t>& sizes = packed.raw_sizes;
  const uint64_t limit =
      sizes.empty() ? max_bytes : *absl::c_max_element(sizes);
  ObjectFile file(files, name, identity);
  FileSink sink(fd, path, limit);
  const absl::Status status = packed.unpacker->Unpack(file, sink);
  MR_RETURN_IF_ERROR(sink.status());
  if (sink.too_many() && sizes.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name, " decompresses to more than ", limit,
        " bytes, and its size is not known before: the file system of ", path,
        " has no room for more"));
  }
  if (sink.too_many()) {
    return Damaged(name, *packed.unpacker,
                   absl::StrCat("has more than the ", limit,
                                " raw bytes of its description"));
  }
  if (!status.ok()) {
    const bool about_file = absl::StartsWith(status.message(), "byte ");
    return absl::Status(status.code(),
                        about_file ? absl::StrCat(name, ": ", status.message())
                                   : std::string(status.message()));
  }
  if (!sizes.empty() && !absl::c_linear_search(sizes, sink.written())) {
    return Damaged(
        name, *packed.unpacker,
        absl::StrCat("has ", sink.written(),
                     " raw bytes, and its description has ", sizes.front()));
  }
  if (fsync(fd) != 0) return FileError(errno, "write", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UnpackedCopies> UnpackedCopies::Open(
    const std::string& cache_dir) {
  MR_ASSIGN_OR_RETURN(const std::string cache, MakeCacheFolder(cache_dir));
  const std::string folder = JoinPath(cache, kFolder);
  MR_RETURN_IF_ERROR(MakeCacheFolder(folder).status());
  return UnpackedCopies(folder);
}

std::string UnpackedCopies::FolderOfFile(const std::string& name) const {
  return JoinPath(
      folder_,
      HashToHex(HashBytes(
          {reinterpret_cast<const uint8_t*>(name.data()), name.size()})));
}

std::optional<UnpackedCopy> UnpackedCopies::Find(
    const std::string& name, const ObjectIdentity& identity,
    const Unpacker& unpacker) const {
  const std::string folder = FolderOfFile(name);
  const auto text =
      ReadFile(JoinPath(folder, kDescription), kMaxDescriptionBytes);
  if (!text.ok()) return std::nullopt;
  std::string file;
  UnpackedCopy copy;
  if (!ParseDescription(*text, name, identity, unpacker, &file,
                        &copy.identity)) {
    return std::nullopt;
  }
  copy.path = JoinPath(folder, file);
  struct stat info;
  if (stat(copy.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      !(IdentityOf(info) == copy.identity)) {
    return std::nullopt;
  }
  return copy;
}

absl::StatusOr<UnpackedCopy> UnpackedCopies::Make(
    const std::string& name, const ObjectIdentity& identity,
    const PackedObject& packed, uint64_t max_bytes, ObjectReader& files,
    bool* made) const {
  *made = false;
  const std::string folder = FolderOfFile(name);
  // A user may have removed it.
  MR_RETURN_IF_ERROR(MakeCacheFolder(folder_).status());
  MR_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder, name));
  if (auto found = Find(name, identity, *packed.unpacker); found.has_value()) {
    return *std::move(found);
  }
  RemoveCopies(folder);
  const std::string file = RandomName();
  UnpackedCopy copy;
  copy.path = JoinPath(folder, file);
  const absl::Status status = [&]() -> absl::Status {
    const UniqueFd fd(
        open(copy.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd.ok()) return FileError(errno, "write", copy.path);
    MR_RETURN_IF_ERROR(UnpackTo(fd.get(), copy.path, name, identity, packed,
                                max_bytes, files));
    struct stat info;
    if (fstat(fd.get(), &info) != 0) {
      return FileError(errno, "look at", copy.path);
    }
    copy.identity = IdentityOf(info);
    return WriteFileAtomically(
        JoinPath(folder, kDescription),
        Describe(name, identity, *packed.unpacker, file, copy.identity));
  }();
  if (!status.ok()) {
    RemoveAll(folder);
    return status;
  }
  *made = true;
  return copy;
}

void UnpackedCopies::Remove(const std::string& name) const {
  const std::string folder = FolderOfFile(name);
  const auto lock = FolderLock::Take(folder, name);
  if (lock.ok()) RemoveAll(folder);
}

absl::StatusOr<uint64_t> UnpackedCopies::FreeBytes() const {
  struct statvfs info;
  int error = statvfs(folder_.c_str(), &info) == 0 ? 0 : errno;
  if (error == ENOENT) {
    MR_RETURN_IF_ERROR(MakeCacheFolder(folder_).status());
    error = statvfs(folder_.c_str(), &info) == 0 ? 0 : errno;
  }
  if (error != 0) {
    return FileError(error, "look at", folder_);
  }
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace millrace::storage
