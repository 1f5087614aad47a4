#include "server/storage/lmdb/lmdb_writer.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/lmdb/sample_codec.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

// MDB_NOLOCK: the file has a temporary name that no other process opens.
// MDB_NOSYNC: the file is synced once, at the end, before it gets its final
// name. No MDB_WRITEMAP: a full disk is then an error and not a SIGBUS.
constexpr unsigned kWriteFlags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC;

// Max bytes of one transaction, because dirty pages stay in memory until the
// transaction ends.
constexpr uint64_t kTransactionBytes = 32 << 20;

// Space for the inner pages of the tree and the free list.
constexpr uint64_t kMapSlack = 16 << 20;

constexpr uint64_t kMaxValueBytes = uint64_t{2} << 30;

// "cannot ACTION PATH: ..." for a return code of LMDB. LMDB's own codes are
// negative; the others are errnos.
absl::Status LmdbError(int rc, absl::string_view action,
                       absl::string_view path) {
  if (rc > 0) return FileError(rc, action, path);
  return absl::InternalError(
      absl::StrCat("cannot ", action, " ", path, ": ", mdb_strerror(rc)));
}

// The errno of a failed write. LMDB reports a write that was cut short as EIO,
// and as ENOSPC when it makes the file: the system cuts a write at the limit of
// file sizes, and on a full disk.
int CauseOf(int error, const std::string& path) {
  struct stat file;
  rlimit limit;
  if ((error == EIO || error == ENOSPC) && stat(path.c_str(), &file) == 0 &&
      getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<rlim_t>(file.st_size) >= limit.rlim_cur) {
    return EFBIG;
  }
  return WriteErrno(error, path);
}

// Appends records to an environment, each key above the last.
class Appender {
 public:
  explicit Appender(std::string path) : path_(std::move(path)) {}

  ~Appender() {
    if (txn_ != nullptr) mdb_txn_abort(txn_);
    if (env_ != nullptr) mdb_env_close(env_);
  }

  absl::Status Open(absl::string_view action) {
    int rc = mdb_env_create(&env_);
    if (rc == 0) rc = mdb_env_open(env_, path_.c_str(), kWriteFlags, 0644);
    if (rc != 0) return LmdbError(CauseOf(rc, path_), action, path_);
    MDB_stat stat;
    mdb_env_stat(env_, &stat);
    page_bytes_ = stat.ms_psize;
    return absl::OkStatus();
  }

  // Allocates space for a value after all others. The caller fills `*place`
  // before the next call.
  absl::Status Put(absl::string_view key, uint64_t bytes, uint8_t** place) {
    if (txn_ != nullptr && txn_bytes_ + Footprint(bytes) > kTransactionBytes) {
      MR_RETURN_IF_ERROR(Commit());
    }
    if (txn_ == nullptr) MR_RETURN_IF_ERROR(Begin(bytes));
    MDB_val k{.mv_size = key.size(), .mv_data = const_cast<char*>(key.data())};
    MDB_val v{.mv_size = bytes, .mv_data = nullptr};
    if (int rc = mdb_put(txn_, dbi_, &k, &v, MDB_APPEND | MDB_RESERVE);
        rc != 0) {
      return LmdbError(rc, "write", path_);
    }
    txn_bytes_ += Footprint(bytes);
    *place = static_cast<uint8_t*>(v.mv_data);
    return absl::OkStatus();
  }

  // The value of a key; nothing if there is none.
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) {
    if (txn_ == nullptr) MR_RETURN_IF_ERROR(Begin(0));
    MDB_val k{.mv_size = key.size(), .mv_data = const_cast<char*>(key.data())};
    MDB_val v;
    const int rc = mdb_get(txn_, dbi_, &k, &v);
    if (rc == MDB_NOTFOUND) return std::nullopt;
    if (rc != 0) return LmdbError(rc, "read", path_);
    return std::string(static_cast<const char*>(v.mv_data), v.mv_size);
  }

  // Commits and syncs. Nothing may follow.
  absl::Status Close() {
    MR_RETURN_IF_ERROR(Commit());
    MDB_envinfo info;
    mdb_env_info(env_, &info);
    const uint64_t file_bytes = (info.me_last_pgno + 1) * page_bytes_;
    if (int rc = mdb_env_sync(env_, 1); rc != 0) {
      return LmdbError(CauseOf(rc, path_), "write", path_);
    }
    mdb_env_close(std::exchange(env_, nullptr));
    // A page that was allocated last and then freed is counted but never
    // written. Readers require the whole length.
    struct stat stat_info;
    if (stat(path_.c_str(), &stat_info) != 0 ||
        (static_cast<uint64_t>(stat_info.st_size) < file_bytes &&
         truncate(path_.c_str(), file_bytes) != 0)) {
      return FileError(errno, "write", path_);
    }
    return SyncToDisk(path_);
  }

 private:
  // Max bytes that a value takes in the file.
  uint64_t Footprint(uint64_t bytes) const {
    return (bytes / page_bytes_ + 2) * page_bytes_;
  }

  absl::Status Begin(uint64_t first_value_bytes) {
    MDB_envinfo info;
    mdb_env_info(env_, &info);
    const uint64_t used = (info.me_last_pgno + 1) * page_bytes_;
    const uint64_t needed =
        used + std::max(kTransactionBytes, Footprint(first_value_bytes)) +
        kMapSlack;
    if (info.me_mapsize < needed) {
      // A quarter more, so that the map rarely grows. The file stores the map
      // size, and readers map that size, which costs no memory.
      const uint64_t size = needed + needed / 4;
      if (int rc = mdb_env_set_mapsize(env_, size - size % page_bytes_);
          rc != 0) {
        return LmdbError(rc, "grow", path_);
      }
    }
    int rc = mdb_txn_begin(env_, nullptr, 0, &txn_);
    if (rc == 0) rc = mdb_dbi_open(txn_, nullptr, 0, &dbi_);
    if (rc != 0) return LmdbError(rc, "write", path_);
    txn_bytes_ = 0;
    return absl::OkStatus();
  }

  absl::Status Commit() {
    if (txn_ == nullptr) return absl::OkStatus();
    if (int rc = mdb_txn_commit(std::exchange(txn_, nullptr)); rc != 0) {
      return LmdbError(CauseOf(rc, path_), "write", path_);
    }
    return absl::OkStatus();
  }

  const std::string path_;
  MDB_env* env_ = nullptr;
  MDB_txn* txn_ = nullptr;
  MDB_dbi dbi_ = 0;
  uint64_t page_bytes_ = 4096;
  uint64_t txn_bytes_ = 0;
};

class LmdbWriter final : public ShardWriter {
 public:
  LmdbWriter(const std::string& path, const SampleCheck& check)
      : file_(path), codec_(check) {}

  absl::Status Open() { return file_.Open("create"); }

  absl::Status Append(absl::Span<const absl::Span<const uint8_t>> fields,
                      absl::string_view origin) override {
    const uint64_t bytes = codec_.EncodedBytes(fields);
    if (bytes > kMaxValueBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", origin, " has ", FormatExactByteSize(bytes),
                       ", more than the 2 GiB of one LMDB value"));
    }
    const uint64_t key = __builtin_bswap64(rows_);
    uint8_t* place;
    MR_RETURN_IF_ERROR(file_.Put(
        {reinterpret_cast<const char*>(&key), sizeof(key)}, bytes, &place));
    codec_.Encode(fields, place);
    ++rows_;
    return absl::OkStatus();
  }

  absl::Status Finish(const ShardMetadata&) override { return file_.Close(); }

 private:
  Appender file_;
  const SampleCodec codec_;
  uint64_t rows_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardWriter>> NewLmdbWriter(
    const std::string& path, const Schema& schema) {
  MR_ASSIGN_OR_RETURN(const SampleCheck check, SampleCheck::Create(schema));
  auto writer = std::make_unique<LmdbWriter>(path, check);
  MR_RETURN_IF_ERROR(writer->Open());
  return writer;
}

// The samples are committed before the metadata: a file that is cut off before
// the last transaction has no metadata.
absl::Status SealLmdb(const std::string& path, const ShardMetadata& metadata) {
  Appender file(path);
  MR_RETURN_IF_ERROR(file.Open("complete"));
  const std::string record = EncodeMetadataRecord(metadata);
  MR_ASSIGN_OR_RETURN(const std::optional<std::string> there,
                      file.Get(kMetadataKey));
  if (!there.has_value()) {
    uint8_t* place;
    MR_RETURN_IF_ERROR(file.Put(kMetadataKey, record.size(), &place));
    std::memcpy(place, record.data(), record.size());
    return file.Close();
  }
  if (*there == record) return SyncToDisk(path);
  return absl::DataLossError(
      absl::StrCat(path, " has the metadata of another packing"));
}

}  // namespace millrace::storage
