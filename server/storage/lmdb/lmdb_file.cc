#include "server/storage/lmdb/lmdb_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "server/storage/file_error.h"
#include "server/storage/lmdb/lmdb_header.h"

namespace millrace {
namespace {

// MDB_RDONLY: a shard file never changes once it has its name; packing again
// makes a new file and renames it.
// MDB_NOLOCK: so there is no writer to lock out. No lock file is made (the
// folder may be read-only, or shared by many machines), and the number of
// readers has no limit.
// MDB_NOTLS: transactions belong to readers, not to threads.
constexpr unsigned kOpenFlags =
    MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS;

// From this share of the machine's memory on, a file's pages will not stay
// cached: reading ahead of a random read would waste the disk's time.
constexpr uint64_t kRandomAccessShare = 4;

// Values of more than so many bytes are asked for as a whole before they are
// touched: without reading ahead each page would be a wait of its own.
constexpr size_t kPrefetchBytes = 16 << 10;

uint64_t MachineMemory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The file itself, by whatever path it was found.
using FileId = std::pair<dev_t, ino_t>;

Mutex& RegistryMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// Files that are open in this process. LMDB wants one environment a file.
std::map<FileId, std::weak_ptr<const LmdbFile>>& Registry() {
  static auto* const registry =
      new std::map<FileId, std::weak_ptr<const LmdbFile>>;
  return *registry;
}

}  // namespace

absl::Status LmdbError(int rc, absl::string_view action,
                       absl::string_view path) {
  // LMDB's own codes are negative, the others are errnos.
  if (rc > 0) return FileError(rc, action, path);
  const std::string text =
      absl::StrCat("cannot ", action, " ", path, ": ", mdb_strerror(rc));
  switch (rc) {
    case MDB_NOTFOUND:
      return absl::NotFoundError(text);
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
      return absl::DataLossError(
          absl::StrCat(text, "; copy the file again, or pack it again"));
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<std::shared_ptr<const LmdbFile>> LmdbFile::Open(
    const std::string& path) {
  MutexLock lock(RegistryMutex());
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(errno, "open", path);
  const FileId id(info.st_dev, info.st_ino);
  // A file whose last user is just closing it may be opened a second time
  // here; without locks that does no harm.
  if (const auto found = Registry().find(id); found != Registry().end()) {
    if (auto file = found->second.lock()) return file;
  }

  MR_ASSIGN_OR_RETURN(const LmdbHeader header, ReadLmdbHeader(path));
  std::shared_ptr<LmdbFile> file(new LmdbFile);
  file->path_ = path;
  file->bytes_ = info.st_size;
  file->entries_ = header.entries;
  file->os_page_bytes_ = sysconf(_SC_PAGESIZE);
  file->random_access_ = file->bytes_ > MachineMemory() / kRandomAccessShare;
  if (int rc = mdb_env_create(&file->env_); rc != 0) {
    return LmdbError(rc, "open", path);
  }
  const unsigned flags =
      kOpenFlags | (file->random_access_ ? MDB_NORDAHEAD : 0);
  if (int rc = mdb_env_open(file->env_, path.c_str(), flags, 0); rc != 0) {
    return LmdbError(rc, "open", path);
  }
  MDB_txn* txn = nullptr;
  int rc = mdb_txn_begin(file->env_, nullptr, MDB_RDONLY, &txn);
  if (rc == 0) {
    rc = mdb_dbi_open(txn, nullptr, 0, &file->dbi_);
    if (rc == 0) {
      rc = mdb_txn_commit(txn);
    } else {
      mdb_txn_abort(txn);
    }
  }
  if (rc != 0) return LmdbError(rc, "open", path);
  if (header.page_size == file->os_page_bytes_) {
    MR_RETURN_IF_ERROR(file->LocateMap(header));
  }
  std::erase_if(Registry(), [](const auto& e) { return e.second.expired(); });
  Registry()[id] = file;
  return file;
}

// LMDB does not tell where its map lies, but every page begins with its own
// number, and a value's first page is the one that it begins in.
absl::Status LmdbFile::LocateMap(const LmdbHeader& header) {
  MDB_txn* txn = nullptr;
  MDB_cursor* cursor = nullptr;
  MDB_val key, value;
  int rc = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn);
  if (rc != 0) return LmdbError(rc, "read", path_);
  rc = mdb_cursor_open(txn, dbi_, &cursor);
  if (rc == 0) rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
  if (rc == 0) {
    const auto at = reinterpret_cast<uintptr_t>(value.mv_data);
    const uintptr_t page = at & ~static_cast<uintptr_t>(header.page_size - 1);
    uint64_t number;
    std::memcpy(&number, reinterpret_cast<const void*>(page), sizeof(number));
    map_ = reinterpret_cast<const uint8_t*>(page - number * header.page_size);
    map_bytes_ = header.pages * header.page_size;
  }
  if (cursor != nullptr) mdb_cursor_close(cursor);
  mdb_txn_abort(txn);
  // An empty tree has no value to look at, and none to hand out.
  if (rc == MDB_NOTFOUND) return absl::OkStatus();
  return rc == 0 ? absl::OkStatus() : LmdbError(rc, "read", path_);
}

LmdbFile::~LmdbFile() {
  if (env_ != nullptr) mdb_env_close(env_);
}

absl::StatusOr<std::unique_ptr<LmdbCursor>> LmdbCursor::Create(
    std::shared_ptr<const LmdbFile> file) {
  std::unique_ptr<LmdbCursor> result(new LmdbCursor(std::move(file)));
  const LmdbFile& f = *result->file_;
  // The transaction lives as long as the reader: as the file never changes, an
  // old snapshot holds up nobody and is never out of date.
  int rc = mdb_txn_begin(f.env_, nullptr, MDB_RDONLY, &result->txn_);
  if (rc == 0) rc = mdb_cursor_open(result->txn_, f.dbi_, &result->cursor_);
  if (rc != 0) return LmdbError(rc, "read", f.path_);
  return result;
}

LmdbCursor::~LmdbCursor() {
  if (cursor_ != nullptr) mdb_cursor_close(cursor_);
  if (txn_ != nullptr) mdb_txn_abort(txn_);
}

int LmdbCursor::TryGet(absl::string_view key,
                       absl::Span<const uint8_t>* value) {
  MDB_val k{.mv_size = key.size(), .mv_data = const_cast<char*>(key.data())};
  MDB_val v;
  // A cursor looks at the page that it stands on before it walks the tree
  // from the root, which makes neighbours cheap.
  if (int rc = mdb_cursor_get(cursor_, &k, &v, MDB_SET); rc != 0) return rc;
  const auto* data = static_cast<const uint8_t*>(v.mv_data);
  const LmdbFile& file = *file_;
  if (file.map_ != nullptr &&
      (data < file.map_ || v.mv_size > file.map_bytes_ ||
       data > file.map_ + (file.map_bytes_ - v.mv_size))) {
    return MDB_CORRUPTED;  // a damaged page number leads out of the file
  }
  if (file.random_access_ && v.mv_size > kPrefetchBytes) {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    const uintptr_t page = begin - begin % file.os_page_bytes_;
    // Advice: nothing to do when it is not taken.
    (void)madvise(reinterpret_cast<void*>(page), begin + v.mv_size - page,
                  MADV_WILLNEED);
  }
  *value = {data, v.mv_size};
  return 0;
}

void LmdbCursor::Touch(absl::Span<const uint8_t> value) const {
  if (value.empty()) return;
  const uint64_t page = file_->os_page_bytes_;
  const auto begin = reinterpret_cast<uintptr_t>(value.data());
  const uintptr_t first = begin - begin % page;
  if (value.size() > page) {
    // All at once, where the system knows how; otherwise one after the other.
    (void)madvise(reinterpret_cast<void*>(first), begin + value.size() - first,
                  MADV_WILLNEED);
  }
  for (uintptr_t at = begin; at < begin + value.size(); at += page) {
    (void)*reinterpret_cast<const volatile uint8_t*>(at);
  }
  (void)*reinterpret_cast<const volatile uint8_t*>(begin + value.size() - 1);
}

absl::StatusOr<absl::Span<const uint8_t>> LmdbCursor::Get(
    absl::string_view key) {
  absl::Span<const uint8_t> value;
  if (int rc = TryGet(key, &value); rc != 0) {
    return LmdbError(rc, "read", file_->path_);
  }
  return value;
}

}  // namespace millrace
