// UnpackedCopies is the part of the cache folder that holds decompressed copies
// of files, CACHE/unpacked (docs/formats.md, Compressed files). For each
// compressed file, a folder contains the copy, and a description that says of
// which version of the compressed file it is and what the copy itself looked
// like (size, times, inode) when it was whole. A copy without a description
// that fits both files is never used: an interrupted, damaged or stale one is
// made again.
//
// It does not decide which files are decompressed (unpacked_objects.h does),
// and it does not remove copies of files that nobody serves any more.
//
// Thread-safe. Processes may share the folder: who makes a copy holds a lock
// (flock), which ends with the process.
//
//   MR_ASSIGN_OR_RETURN(auto copies, UnpackedCopies::Open("/var/cache/mr"));
//   auto copy = copies.Find("/data/0.mds.zstd", identity, unpacker);

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_UNPACKED_COPIES_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_UNPACKED_COPIES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

struct UnpackedCopy {
  std::string path;
  ObjectIdentity identity;  // of the copy
};

class UnpackedCopies {
 public:
  // Makes the folder if it is missing. Errors of MakeCacheFolder().
  static absl::StatusOr<UnpackedCopies> Open(const std::string& cache_dir);

  const std::string& folder() const { return folder_; }

  // The whole copy of the compressed file `name` (an absolute path) in its
  // version `identity`; nullopt: there is none.
  std::optional<UnpackedCopy> Find(const std::string& name,
                                   const ObjectIdentity& identity,
                                   const Unpacker& unpacker) const;

  // Makes the copy, unless another thread or process has made it meanwhile.
  // Waits while one makes it. `*made`: this call has. `files` reads the
  // compressed file. After an error nothing of the copy is left.
  //
  // DataLoss: the compressed file is damaged, or its raw bytes have another
  // size than packed.raw_sizes; names the file. ResourceExhausted: the disk is
  // full, or a file without raw_sizes has more than `max_bytes`. Cancelled: a
  // request to stop (stop_signals.h).
  absl::StatusOr<UnpackedCopy> Make(const std::string& name,
                                    const ObjectIdentity& identity,
                                    const PackedObject& packed,
                                    uint64_t max_bytes, ObjectReader& files,
                                    bool* made) const;

  // Removes the copy of `name`.
  void Remove(const std::string& name) const;

  // Room for this user in the file system, in bytes. Makes the folder if it was
  // removed.
  absl::StatusOr<uint64_t> FreeBytes() const;

 private:
  explicit UnpackedCopies(std::string folder) : folder_(std::move(folder)) {}
  std::string FolderOfFile(const std::string& name) const;

  const std::string folder_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_UNPACKED_COPIES_H_
