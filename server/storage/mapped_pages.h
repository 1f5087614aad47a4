// MappedPages asks the system to load the pages of values in a mapped file
// before they are used: a value larger than a page is otherwise a wait for each
// of its pages.
//
// Only advice: it changes no data and reports no error.
//
// Thread-safe. Does not own the map, which must outlive it.
//
//   const MappedPages pages(file->data());
//   pages.Advise(value);  // before reading it, does not wait
//   pages.Touch(value);   // waits until it is in memory

#ifndef MILLRACE_SERVER_STORAGE_MAPPED_PAGES_H_
#define MILLRACE_SERVER_STORAGE_MAPPED_PAGES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::storage {

class MappedPages {
 public:
  // Turns off the system's read-ahead for a file that is large for this
  // machine.
  explicit MappedPages(absl::Span<const uint8_t> map);

  // Requests the pages of a value, where reading ahead is off.
  void Advise(absl::Span<const uint8_t> value) const;

  // Waits until the pages of a value lie in memory.
  void Touch(absl::Span<const uint8_t> value) const;

 private:
  const uint64_t page_bytes_;
  const bool random_access_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MAPPED_PAGES_H_
