// LocalObjects reads ranges of local files, which stay open for later reads
// (open_files.h) and are compared with the expected identity after each read
// (checked_file.h).
//
// It is no cache of bytes and follows links.
//
// Thread-safe. Reads of different threads run in parallel; a thread waits only
// when all files that may be open are being read.
//
//   LocalObjects objects;
//   MR_ASSIGN_OR_RETURN(ObjectIdentity id, objects.Stat("/data/0.tar"));
//   MR_RETURN_IF_ERROR(objects.Read("/data/0.tar", id, 512, buffer));

#ifndef MILLRACE_SERVER_STORAGE_OBJECTS_LOCAL_OBJECTS_H_
#define MILLRACE_SERVER_STORAGE_OBJECTS_LOCAL_OBJECTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/objects/checked_file.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/objects/open_files.h"

namespace millrace::storage {

class LocalObjects final : public ObjectReader {
 public:
  // `files` must outlive it.
  explicit LocalObjects(OpenFiles& files = OpenFiles::OfProcess())
      : files_(files) {}
  ~LocalObjects() override { files_.Close(this); }
  LocalObjects(const LocalObjects&) = delete;
  LocalObjects& operator=(const LocalObjects&) = delete;

  // `name` is a path. InvalidArgument: it is no regular file.
  absl::StatusOr<ObjectIdentity> Stat(const std::string& name) override;

  // DataLoss also if permissions are missing, because no attempt succeeds
  // before a person has changed them.
  absl::Status Read(const std::string& name, const ObjectIdentity& expected,
                    uint64_t offset, absl::Span<uint8_t> data) override;
  absl::Status ReadUnchecked(const std::string& name,
                             const ObjectIdentity& expected, uint64_t offset,
                             absl::Span<uint8_t> data) override;
  absl::Status CheckIdentity(const std::string& name,
                             const ObjectIdentity& expected) override;

 private:
  // Calls `use` with the open file.
  absl::Status WithFile(
      const std::string& name,
      absl::FunctionRef<std::optional<FileFault>(int file)> use);

  OpenFiles& files_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OBJECTS_LOCAL_OBJECTS_H_
