// Tar archives for tests, header by header.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_TAR_TAR_BYTES_H_
#define MILLRACE_TESTS_SERVER_STORAGE_TAR_TAR_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

// Puts the right checksum into a header.
inline void SignTarHeader(std::string* header) {
  header->replace(148, 8, "        ");
  uint32_t sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>((*header)[i]);
  header->replace(148, 8, absl::StrFormat("%06o", sum) + '\0' + ' ');
}

// `size`: the text of the size's field.
inline std::string TarHeader(absl::string_view name, char type,
                             absl::string_view size,
                             absl::string_view prefix = "") {
  std::string header(512, '\0');
  header.replace(0, name.size(), name.data(), name.size());
  header.replace(100, 7, "0000644");
  header.replace(124, size.size(), size.data(), size.size());
  header.replace(136, 11, "14524700000");
  header[156] = type;
  header.replace(257, 8, absl::string_view("ustar\00000", 8).data(), 8);
  header.replace(345, prefix.size(), prefix.data(), prefix.size());
  SignTarHeader(&header);
  return header;
}

inline std::string TarPadded(std::string data) {
  data.resize((data.size() + 511) / 512 * 512);
  return data;
}

// A header and its data.
inline std::string TarMemberBytes(absl::string_view name,
                                  absl::string_view data, char type = '0',
                                  absl::string_view prefix = "") {
  return TarHeader(name, type, absl::StrFormat("%011o", data.size()), prefix) +
         TarPadded(std::string(data));
}

// A pax header with one record.
inline std::string PaxBytes(absl::string_view key, absl::string_view value,
                            char type = 'x') {
  // The length counts its own digits.
  size_t length = key.size() + value.size() + 3;
  std::string text;
  do {
    text = absl::StrFormat("%d %s=%s\n", length, key, value);
  } while (text.size() != length && (length = text.size(), true));
  return TarMemberBytes("pax", text, type);
}

inline std::string TarEnd() { return std::string(1024, '\0'); }

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_TAR_TAR_BYTES_H_
