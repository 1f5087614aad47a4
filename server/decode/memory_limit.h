// MemoryLimit counts the memory that a library allocates for one image, and
// refuses beyond a bound: a library must not allocate by a length or size that
// a file claims. It allocates nothing itself.
//
// Not thread-safe: one per decoder.
//
//   MemoryLimit limit;
//   limit.Start(256 << 10);                   // before the header is read
//   if (!limit.Take(bytes)) return nullptr;   // in the library's malloc
//   limit.Allow(256 << 10 + of_this_size);    // the size is known

#ifndef MILLRACE_SERVER_DECODE_MEMORY_LIMIT_H_
#define MILLRACE_SERVER_DECODE_MEMORY_LIMIT_H_

#include <cstdint>

namespace millrace::decode {

class MemoryLimit {
 public:
  // Nothing is taken yet, and at most `bytes` may be.
  void Start(int64_t bytes) {
    limit_ = bytes;
    used_ = 0;
    exceeded_ = false;
  }

  // From now on at most `bytes`, what is taken already among them.
  void Allow(int64_t bytes) { limit_ = bytes; }

  // False: beyond the limit; nothing is taken.
  bool Take(uint64_t bytes) {
    if (used_ > limit_ || bytes > static_cast<uint64_t>(limit_ - used_)) {
      exceeded_ = true;
      return false;
    }
    used_ += static_cast<int64_t>(bytes);
    return true;
  }

  void Give(uint64_t bytes) { used_ -= static_cast<int64_t>(bytes); }

  // Whether anything was refused since Start().
  bool exceeded() const { return exceeded_; }

 private:
  int64_t limit_ = 0;
  int64_t used_ = 0;
  bool exceeded_ = false;
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_MEMORY_LIMIT_H_
