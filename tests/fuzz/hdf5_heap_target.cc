// Fuzz target of HDF5's heap of values of variable length: whatever a reference
// and the file hold, the search ends, reads inside the file alone, and gives a
// value inside the file or an error.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/logging.h"
#include "server/storage/hdf5/heap_value.h"
#include "server/storage/little_endian.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

using storage::kHeapReferenceBytes;

// The input: reference, number of bytes of the value, bytes of the user block,
// then the file.
constexpr size_t kHeadBytes = kHeapReferenceBytes + 4 + 1;

bool Run(const uint8_t* data, size_t size) {
  if (size < kHeadBytes) return false;
  const absl::Span<const uint8_t> input(data, size);
  const storage::HeapReference reference =
      storage::ParseHeapReference(input.first(kHeapReferenceBytes));
  uint32_t bytes;
  std::memcpy(&bytes, data + kHeapReferenceBytes, sizeof(bytes));
  const uint8_t user_block = data[kHeadBytes - 1];
  const absl::Span<const uint8_t> file = input.subspan(kHeadBytes);
  const auto found = storage::FindHeapValue(
      reference, bytes, user_block, file.size(),
      [file](uint64_t offset, absl::Span<uint8_t> to) {
        MR_CHECK(offset <= file.size() && to.size() <= file.size() - offset);
        std::memcpy(to.data(), file.data() + offset, to.size());
        return absl::OkStatus();
      });
  if (!found.ok()) {
    MR_CHECK(absl::IsDataLoss(found.status()));
    return false;
  }
  MR_CHECK(*found <= file.size() && bytes <= file.size() - *found);
  return true;
}

std::string Object(uint32_t number, const std::string& value) {
  std::string object;
  storage::AppendU32(number | 1 << 16, &object);  // used once
  storage::AppendU32(0, &object);
  storage::AppendU64(value.size(), &object);
  object += value;
  object.resize((object.size() + 7) / 8 * 8);
  return object;
}

std::string Seed(uint32_t object, uint32_t bytes, uint8_t user_block,
                 const std::string& objects) {
  std::string input;
  storage::AppendU32(bytes, &input);
  storage::AppendU64(0, &input);
  storage::AppendU32(object, &input);
  storage::AppendU32(bytes, &input);
  input += static_cast<char>(user_block);
  input += std::string(user_block, 'x');
  input += std::string("GCOL\1\0\0\0", 8);
  storage::AppendU64(16 + objects.size(), &input);
  return input + objects;
}

std::vector<std::string> Seeds() {
  return {
      Seed(1, 3, 0, Object(1, "one")),
      Seed(2, 5, 8, Object(1, "one") + Object(2, "three") + Object(0, "")),
      Seed(3, 2, 0, Object(1, std::string(5'000, 'a')) + Object(3, "in")),
  };
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
