// RunningDigest is the XXH3-64 (seed 0) of bytes that come piece by piece. A
// piece that was just touched is hashed out of the processor's caches; hashing
// all of them at the end would read them from memory once more.
//
// Not thread-safe.
//
//   RunningDigest digest;
//   digest.Add(first_piece);
//   digest.Add(second_piece);
//   if (digest.Value() != expected) ...

#ifndef MILLRACE_COMMON_RUNNING_DIGEST_H_
#define MILLRACE_COMMON_RUNNING_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace {

class RunningDigest {
 public:
  RunningDigest();
  ~RunningDigest();
  RunningDigest(const RunningDigest&) = delete;
  RunningDigest& operator=(const RunningDigest&) = delete;

  // Begins anew.
  void Clear();
  void Add(const void* bytes, size_t size);
  // Of all bytes since the beginning.
  uint64_t Value() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_RUNNING_DIGEST_H_
