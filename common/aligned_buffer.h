// AlignedBuffer is memory that is reused from one piece of work to the next and
// only grows: scratch of a worker. It is not a container: growing does not keep
// the contents, and nothing is initialised.
//
// Not thread-safe. Owns its memory, 64-byte aligned.
//
//   AlignedBuffer buffer;                  // nothing allocated
//   uint8_t* p = buffer.Reserve(rows * stride);
//   if (p == nullptr) return absl::ResourceExhaustedError(...);

#ifndef MILLRACE_COMMON_ALIGNED_BUFFER_H_
#define MILLRACE_COMMON_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace millrace {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer() { std::free(data_); }

  // At least `bytes` bytes of unspecified contents; nullptr when the system has
  // none. Earlier pointers are invalid when the buffer had to grow.
  uint8_t* Reserve(size_t bytes) {
    if (bytes <= capacity_ && data_ != nullptr) return data_;
    std::free(data_);
    capacity_ = (bytes + 64) & ~size_t{63};
    data_ = static_cast<uint8_t*>(std::aligned_alloc(64, capacity_));
    if (data_ == nullptr) capacity_ = 0;
    return data_;
  }

  // Gives the memory back when it is more than `bytes`: after one huge piece of
  // work the scratch is small again.
  void ReleaseAbove(size_t bytes) {
    if (capacity_ <= bytes) return;
    std::free(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t capacity() const { return capacity_; }

 private:
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_ALIGNED_BUFFER_H_
