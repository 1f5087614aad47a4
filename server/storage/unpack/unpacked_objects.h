// UnpackedObjects reads local files, and of files that are compressed as a
// whole the raw bytes: it decompresses them once, into the cache folder that
// the user has named (unpacked_copies.h), and reads from the copies.
//
// The identity of such an object is that of the compressed file, with the size
// of the raw bytes. A file that changes later is noticed as any other one. A
// copy that is removed or damaged while it is used is made again.
//
// Thread-safe after Prepare(). Threads that read an object wait while its copy
// is made again.
//
//   UnpackedObjects objects("/var/cache/millrace");
//   MR_RETURN_IF_ERROR(objects.Prepare(names, packed));
//   MR_ASSIGN_OR_RETURN(ObjectIdentity id, objects.Stat(names[0]));

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_UNPACKED_OBJECTS_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_UNPACKED_OBJECTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/storage/objects/local_objects.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/unpack/unpacked_copies.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

class UnpackedObjects final : public ObjectReader {
 public:
  // As OpenSourceOptions::cache_dir.
  explicit UnpackedObjects(std::string cache_dir)
      : cache_dir_(std::move(cache_dir)) {}
  UnpackedObjects(const UnpackedObjects&) = delete;
  UnpackedObjects& operator=(const UnpackedObjects&) = delete;

  // Decompresses the files that have no copy, several at a time. Logs how many
  // there are, and how much room they need.
  //
  // FailedPrecondition, a usage error: no cache folder was named; says how much
  // room it needs. ResourceExhausted, a usage error: the file system of the
  // cache folder has less room, or gets full; what was decompressed is removed.
  // Otherwise errors of LocalObjects::Stat() and UnpackedCopies::Make().
  absl::Status Prepare(const std::vector<std::string>& names,
                       const PackedObjects& packed) override;

  absl::StatusOr<ObjectIdentity> Stat(const std::string& name) override;
  absl::Status Read(const std::string& name, const ObjectIdentity& expected,
                    uint64_t offset, absl::Span<uint8_t> data) override;
  // A read of a copy is always checked.
  absl::Status ReadUnchecked(const std::string& name,
                             const ObjectIdentity& expected, uint64_t offset,
                             absl::Span<uint8_t> data) override;
  absl::Status CheckIdentity(const std::string& name,
                             const ObjectIdentity& expected) override;

 private:
  struct Object {
    std::string name;
    PackedObject packed;
    ObjectIdentity identity;  // of the compressed file
    Mutex mu;
    std::optional<UnpackedCopy> copy MR_GUARDED_BY(mu);
  };

  absl::Status StatAll();
  absl::Status NeedsFolder(const PackedObjects& packed);
  // The objects without a copy.
  std::vector<Object*> FindCopies();
  // The room that the copies of `objects` need; nullopt: not known of all.
  absl::StatusOr<std::optional<uint64_t>> RoomFor(
      const std::vector<Object*>& objects);
  absl::Status MakeCopies(const std::vector<Object*>& objects);
  absl::StatusOr<UnpackedCopy> CopyOf(Object& object);
  // The copy after `old` could not be read.
  absl::StatusOr<UnpackedCopy> Renew(Object& object, const std::string& old);

  const std::string cache_dir_;
  LocalObjects files_;
  // Constant after Prepare().
  std::optional<UnpackedCopies> copies_;
  std::unordered_map<std::string, std::unique_ptr<Object>> objects_;
  std::vector<Object*> order_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_UNPACKED_OBJECTS_H_
