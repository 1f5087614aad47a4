// Fuzz target of the headers of Parquet pages, which are read when the memory
// of a refusal is reckoned: parsing ends, stays inside the input, and gives no
// size that the format does not have.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/logging.h"
#include "server/storage/parquet/page_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  const auto header =
      storage::ParsePageHeader({reinterpret_cast<const char*>(data), size});
  if (!header.has_value()) return false;
  MR_CHECK(header->bytes > 0 && header->bytes <= static_cast<int64_t>(size));
  for (const int64_t number :
       {header->encoded, header->stored, header->values}) {
    MR_CHECK(number >= 0 && number <= std::numeric_limits<int32_t>::max());
  }
  MR_CHECK(header->levels >= 0 &&
           header->levels <= 2 * int64_t{std::numeric_limits<int32_t>::max()});
  return true;
}

// Thrift's compact protocol: the high half of a byte is how much larger the
// number of a field is than that of the one before, the low half its type.
std::vector<std::string> Seeds() {
  using std::string_literals::operator""s;
  return {
      // A data page of 100 bytes, 50 as it is stored, with 20 values.
      "\x15\x00\x15\xc8\x01\x15\x64\x2c\x15\x28\x15\x00\x15\x06\x15\x06\x00\x00"s,
      // A dictionary page of 3 values.
      "\x15\x04\x15\x18\x15\x18\x4c\x15\x06\x15\x04\x00\x00"s,
      // A data page of version 2 with a checksum.
      "\x15\x06\x15\x40\x15\x40\x15\x02\x4c\x15\x28\x15\x00\x15\x28\x15\x00\x15\x00\x15\x00\x00\x00"s,
  };
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
