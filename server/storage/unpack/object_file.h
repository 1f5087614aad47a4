// ObjectFile is a compressed object as Unpackers read it.
//
// One thread at a time. What it is made of must outlive it.
//
//   ObjectFile file(files, name, identity);
//   MR_RETURN_IF_ERROR(unpacker.Unpack(file, sink));

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_OBJECT_FILE_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_OBJECT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

class ObjectFile final : public PackedFile {
 public:
  ObjectFile(ObjectReader& files, const std::string& name,
             const ObjectIdentity& identity)
      : files_(files), name_(name), identity_(identity) {}
  uint64_t size() const override { return identity_.bytes; }
  absl::Status Read(uint64_t offset, absl::Span<uint8_t> data) override {
    return files_.Read(name_, identity_, offset, data);
  }

 private:
  ObjectReader& files_;
  const std::string& name_;
  const ObjectIdentity& identity_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_OBJECT_FILE_H_
