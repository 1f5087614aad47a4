// Reads a number from bytes that another process may change any time (a mapped
// file): the value is read once, so that what was checked is what is used.

#ifndef MILLRACE_SERVER_STORAGE_PAGE_LOAD_H_
#define MILLRACE_SERVER_STORAGE_PAGE_LOAD_H_

#include <cstdint>
#include <cstring>

namespace millrace::storage {

// Of any alignment.
template <typename T>
T PageLoad(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  // The compiler must take `value` for changed: it may not read `at` again.
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PAGE_LOAD_H_
