// Fuzz target of the head of a file of arrays: whatever a program passes,
// parsing ends, and every row of every array that is found is in the file.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/logging.h"
#include "server/storage/memory/array_layout.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  // protobuf writes a line for each string that is no UTF-8.
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  const auto layout = storage::ParseArrayLayout({data, size});
  if (!layout.ok()) return false;
  MR_CHECK(layout->rows >= 1);
  MR_CHECK(static_cast<int>(layout->arrays.size()) ==
           layout->schema.fields_size());
  const uint64_t rows = static_cast<uint64_t>(layout->rows);
  uint64_t before = storage::kArrayHeadBytes;
  for (const auto& array : layout->arrays) {
    MR_CHECK(array.row_bytes >= 1 && array.row_bytes <= size / rows);
    MR_CHECK(array.offset >= before &&
             array.offset + rows * array.row_bytes <= size);
    before = array.offset + rows * array.row_bytes;
  }
  MR_CHECK(before == size);
  return true;
}

// The length of the schema follows the input, so that mutations of the schema
// get past it.
void Repair(std::string& input) {
  if (input.size() < storage::kArrayHeadBytes) return;
  uint32_t bytes;
  std::memcpy(&bytes, input.data() + 12, sizeof(bytes));
  bytes %= static_cast<uint32_t>(input.size() - storage::kArrayHeadBytes + 1);
  std::memcpy(input.data() + 12, &bytes, sizeof(bytes));
}

std::string Seed(const Schema& schema, uint64_t rows, uint64_t row_bytes) {
  const std::string message = schema.SerializeAsString();
  std::string seed(storage::kArrayLetters);
  const auto number = [&seed](auto value) {
    seed.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  number(storage::kArrayVersion);
  number(static_cast<uint32_t>(message.size()));
  number(rows);
  seed += message;
  for (int i = 0; i < schema.fields_size(); ++i) {
    seed.resize((seed.size() + storage::kArrayAlignment - 1) /
                storage::kArrayAlignment * storage::kArrayAlignment);
    seed.append(rows * row_bytes, 'x');
  }
  return seed;
}

std::vector<std::string> Seeds() {
  Schema one;
  Field& image = *one.add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_TENSOR);
  image.set_dtype(DTYPE_UINT8);
  for (const int extent : {2, 2, 2}) image.add_shape(extent);
  Schema two = one;
  Field& label = *two.add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(2);
  label.add_class_names("a");
  label.add_class_names("b");
  return {Seed(one, 1, 8), Seed(two, 3, 8)};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = Repair};
  return target;
}

}  // namespace millrace
