// Fuzz target of what is counted of a Parquet footer before it is parsed:
// counting ends, stays inside the input, and gives no more than the bytes can
// hold.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/storage/parquet/footer_counts.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  const std::string footer(reinterpret_cast<const char*>(data), size);
  if (const auto parsed = storage::ParsedBytesOf(footer))
    MR_CHECK(*parsed >= size);
  const auto counts = storage::CountFooter(footer, size);
  if (!counts.has_value()) return false;
  MR_CHECK(counts->columns > 0 && counts->columns <= size);
  MR_CHECK(counts->row_groups <= size / counts->columns);
  MR_CHECK(counts->path_names <= counts->columns * size);
  MR_CHECK(counts->elements >= counts->columns && counts->elements <= size);
  MR_CHECK(counts->ParsedBytes(size) >= size);
  return true;
}

// Thrift's compact protocol: the high half of a byte is how much larger the
// number of a field is than that of the one before, the low half its type.
std::string Element(const std::string& name, int children) {
  return absl::StrCat(
      children == 0 ? "\x15\x04\x25\x02\x18" : "\x48",
      std::string(1, static_cast<char>(name.size())), name,
      children == 0 ? ""
                    : "\x15" + std::string(1, static_cast<char>(2 * children)),
      std::string(1, '\0'));
}

std::string Footer(const std::vector<std::string>& elements, int row_groups) {
  std::string footer = "\x15\x02\x19";
  footer += static_cast<char>(elements.size() << 4 | 12);
  for (const std::string& element : elements) footer += element;
  footer += "\x16\x50\x19";
  footer += static_cast<char>(row_groups << 4 | 12);
  return footer + std::string(400, '\x11');
}

std::vector<std::string> Seeds() {
  const std::string flat = Footer(
      {Element("schema", 2), Element("image", 0), Element("label", 0)}, 7);
  const std::string nested =
      Footer({Element("schema", 2), Element("list", 1), Element("element", 2),
              Element("x", 0), Element("y", 0), Element("label", 0)},
             3);
  return {flat, nested};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
