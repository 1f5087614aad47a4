// Files of arrays as clients write them, for tests.
//
//   const std::string bytes = ArrayFile(schema, rows, {images, labels});
//   UniqueFd file = SealedFile(bytes);

#ifndef MILLRACE_TESTS_SERVER_STORAGE_MEMORY_ARRAY_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_MEMORY_ARRAY_TESTING_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

inline constexpr int kArraySeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

inline void AddTensor(const std::string& name, DType dtype,
                      const std::vector<int64_t>& shape, Schema* schema) {
  Field& field = *schema->add_fields();
  field.set_name(name);
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(dtype);
  for (const int64_t extent : shape) field.add_shape(extent);
}

template <typename T>
void AppendNumber(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// As docs/protocol.md has it; `arrays`: the bytes of each.
inline std::string ArrayFile(const std::string& schema, uint64_t rows,
                             const std::vector<std::string>& arrays) {
  std::string bytes = "MRARRAYS";
  AppendNumber<uint32_t>(1, &bytes);
  AppendNumber<uint32_t>(static_cast<uint32_t>(schema.size()), &bytes);
  AppendNumber<uint64_t>(rows, &bytes);
  bytes += schema;
  for (const std::string& array : arrays) {
    bytes.resize((bytes.size() + 63) / 64 * 64, '\0');
    bytes += array;
  }
  return bytes;
}

inline absl::Span<const uint8_t> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline UniqueFd SealedFile(absl::string_view bytes, int seals = kArraySeals) {
  UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(write(file.get(), bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_MEMORY_ARRAY_TESTING_H_
