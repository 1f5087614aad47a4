// MapGuard lets a process survive the loss of pages of a mapped file: when the
// file is truncated, or its disk fails, a read of the map raises SIGBUS, which
// ends the process by default. Under a guard, the signal handler replaces the
// map with zeros from that page on and records the loss, and the read
// continues.
//
// It does not repair data: the reader must call lost() after reading and before
// using the data. It does not catch SIGSEGV, and passes every SIGBUS outside of
// guarded maps to the previous handler (a sanitizer's, or the system's, which
// ends the process).
//
// Thread-safe. The handler takes no lock and allocates nothing. Guards may come
// and go while other threads fault in their own maps. Does not own the map,
// which must stay mapped as long as the guard lives.
//
//   void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
//   const MapGuard guard(map, bytes);
//   Use(map);
//   if (guard.lost()) ...;  // zeros were read from offset *guard.lost() on

#ifndef MILLRACE_COMMON_MAP_GUARD_H_
#define MILLRACE_COMMON_MAP_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace millrace {

class MapGuard {
 public:
  // `begin` is where a map of the whole pages that hold `bytes` bytes begins.
  // The map is read only: writes into zeros that were put there would fault.
  // The first guard of a process installs the handler.
  MapGuard(const void* begin, size_t bytes);
  ~MapGuard();
  MapGuard(const MapGuard&) = delete;
  MapGuard& operator=(const MapGuard&) = delete;

  // Offset of the first page that zeros were put in the place of; absent: no
  // page was lost. A read that met zeros happens before the call that says so.
  std::optional<uint64_t> lost() const;

  struct Entry;

 private:
  Entry* const entry_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_MAP_GUARD_H_
