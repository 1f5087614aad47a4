// FileRoom is the memory for what the readers of a dataset are reading, files
// or records of files: bounded in bytes. A reader that finds no room waits,
// first come, first served. Small buffers are kept for the next files as far as
// they fit beside those in use.
//
// Why no reader waits for ever: each file fits when nothing else is in the
// room, and a thread that holds a buffer does not wait for another thread that
// may read (RecordSource::max_concurrent_reads()).
//
// Thread-safe; a Buffer belongs to one thread, which holds one at a time. Owns
// the memory, also of buffers that are in use.
//
//   FileRoom room(FileRoom::Charge(largest_file));
//   FileRoom::Buffer buffer(room, bytes);  // may wait
//   if (buffer.data() == nullptr) ...      // the system has no memory

#ifndef MILLRACE_SERVER_STORAGE_FILE_ROOM_H_
#define MILLRACE_SERVER_STORAGE_FILE_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/mutex.h"

namespace millrace::storage {

class FileRoom {
 public:
  // What a file of `bytes` takes of the room.
  static constexpr uint64_t Charge(uint64_t bytes) { return bytes + 64; }

  // UINT64_MAX: no bound.
  explicit FileRoom(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  FileRoom(const FileRoom&) = delete;
  FileRoom& operator=(const FileRoom&) = delete;

  class Buffer {
   public:
    // Waits for room. Charge(bytes) must be at most max_bytes().
    Buffer(FileRoom& room, size_t bytes);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // Null: the system has no memory.
    uint8_t* data() const { return data_; }

   private:
    FileRoom& room_;
    uint64_t charged_ = 0;  // before memory_, whose initialiser sets it
    std::unique_ptr<AlignedBuffer> memory_;
    uint8_t* data_ = nullptr;
  };

  uint64_t max_bytes() const { return max_bytes_; }
  // Of buffers in use and of those that are kept.
  uint64_t used_bytes() const;

 private:
  struct Waiter {
    CondVar turn;
  };

  bool Fits(uint64_t bytes) const MR_REQUIRES(mu_) {
    return bytes <= max_bytes_ - in_use_;
  }
  // Memory for `charge` bytes: kept memory if some is of about this size.
  // `*charged`: what it is charged for, at least `charge`.
  std::unique_ptr<AlignedBuffer> Take(uint64_t charge, uint64_t* charged);
  void Give(std::unique_ptr<AlignedBuffer> memory, uint64_t charged);

  const uint64_t max_bytes_;
  mutable Mutex mu_;
  // At most max_bytes_, also together.
  uint64_t in_use_ MR_GUARDED_BY(mu_) = 0;
  uint64_t kept_bytes_ MR_GUARDED_BY(mu_) = 0;
  // A stack: the buffer that came back last has the warmest memory.
  std::vector<std::unique_ptr<AlignedBuffer>> kept_ MR_GUARDED_BY(mu_);
  // Only the first is woken. If the line is not empty, nobody passes it.
  std::deque<Waiter*> line_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FILE_ROOM_H_
