// ReaderWindow is the ObjectWindow over an ObjectReader. Where bytes follow
// each other it reads ahead, up to a bound. After a jump it reads little,
// because a scan looks at headers: after a far jump as many bytes as were used
// behind the one before, which fits 12 bytes of a TFRecord as well as the two
// or three headers of a tar sample.
//
// What it gives may be bytes of another version of the object: CheckIdentity()
// tells so after the last use.
//
// One thread at a time. Does not own the reader.
//
//   ReaderWindow window(&objects, "/data/0.tar", identity);
//   MR_ASSIGN_OR_RETURN(auto header, window.At(0, 512));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_READER_WINDOW_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_READER_WINDOW_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/extents/object_window.h"
#include "server/storage/objects/object_reader.h"

namespace millrace::storage {

class ReaderWindow final : public ObjectWindow {
 public:
  // Bytes that are read after a jump of at most kJumpBytes, after a further
  // one, and at most ahead.
  static constexpr uint64_t kJumpBytes = 4 << 10;
  static constexpr uint64_t kFarJumpBytes = 0;
  static constexpr uint64_t kAheadBytes = 256 << 10;

  ReaderWindow(ObjectReader* objects, std::string name, ObjectIdentity identity)
      : objects_(objects),
        name_(std::move(name)),
        identity_(std::move(identity)) {}

  uint64_t size() const override { return identity_.bytes; }
  absl::StatusOr<absl::Span<const uint8_t>> At(uint64_t offset,
                                               uint64_t bytes) override;

  // Errors of ObjectReader::CheckIdentity().
  absl::Status CheckIdentity() const {
    return objects_->CheckIdentity(name_, identity_);
  }

 private:
  ObjectReader* const objects_;
  const std::string name_;
  const ObjectIdentity identity_;
  // `held_` bytes of the object from `start_` on.
  std::vector<uint8_t> buffer_;
  uint64_t start_ = 0;
  uint64_t held_ = 0;
  uint64_t ahead_ = kJumpBytes;  // bytes to read next
  // What was asked for since the last far jump lies in this range.
  uint64_t used_from_ = 0;
  uint64_t used_to_ = kJumpBytes;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_READER_WINDOW_H_
