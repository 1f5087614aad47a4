// WebpMemoryBudget bounds what libwebp allocates while it decodes one picture.
// The size of a picture does not tell it: a file of 200 KB may ask for 65,536
// groups of Huffman tables, more than half a gigabyte, whatever its pixels.
//
// libwebp takes all its memory through WebPSafeMalloc() and WebPSafeCalloc(),
// which it exports; this file defines them again, and the dynamic linker
// prefers ours. A test notices a libwebp that is built in a way that it does
// not.
//
// One at a time on a thread; it counts that thread's allocations alone, all
// that were made since, freed or not.
//
//   WebpMemoryBudget budget(int64_t{64} << 20);
//   if (WebPDecode(...) == VP8_STATUS_OUT_OF_MEMORY && budget.exceeded()) ...

#ifndef MILLRACE_SERVER_DECODE_WEBP_MEMORY_H_
#define MILLRACE_SERVER_DECODE_WEBP_MEMORY_H_

#include <cstdint>

namespace millrace::decode {

class WebpMemoryBudget {
 public:
  explicit WebpMemoryBudget(int64_t bytes);
  ~WebpMemoryBudget();
  WebpMemoryBudget(const WebpMemoryBudget&) = delete;
  WebpMemoryBudget& operator=(const WebpMemoryBudget&) = delete;

  // Whether an allocation was refused because of the budget.
  bool exceeded() const;
  // Bytes that were asked for and given.
  int64_t used() const;

 private:
  const int64_t bytes_;
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_WEBP_MEMORY_H_
