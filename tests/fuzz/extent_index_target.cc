// Fuzz target of the index of records in files: whatever its file holds,
// parsing ends and stays inside the input, and an index that is taken points
// into its objects; so does the parsing of its rule as that of files.

#include <google/protobuf/stubs/logging.h>
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/logging.h"
#include "server/storage/extents/extent_index.h"
#include "server/storage/extents/file_rule.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/storage/extents/index_samples.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  // protobuf writes a line for each string that is no UTF-8.
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  const auto made = storage::ExtentIndex::FromBytes(
      std::string(reinterpret_cast<const char*>(data), size));
  if (!made.ok()) return false;
  const storage::ExtentIndex& index = **made;
  MR_CHECK(index.samples() >= 1);
  const int fields = index.head().schema().fields_size();
  uint64_t touched = 0;
  for (int64_t i = 0; i < index.samples(); ++i) {
    const int place = index.ObjectOf(i);
    MR_CHECK(place >= 0 && place < index.objects());
    const storage::ExtentIndex::Object& object = index.object(place);
    MR_CHECK(i >= object.first_sample &&
             i < object.first_sample + object.samples);
    const storage::Extent extent = index.extent(i);
    if (index.has_files()) {
      MR_CHECK(place == 0 && extent.offset == 0);
      touched += index.FilePath(i).size() + index.file_identity(i).inode;
    } else {
      MR_CHECK(extent.offset <= object.identity.bytes &&
               extent.bytes <= object.identity.bytes - extent.offset);
    }
    MR_CHECK(extent.bytes <= index.largest_extent());
    for (int field = 0; field < fields; ++field) {
      for (const uint8_t byte : index.value(field, i)) touched += byte;
      if (!index.lengths(field).empty()) touched += index.lengths(field)[i];
    }
  }
  const auto rule = storage::FileRule::Restore(index.head().rule());
  if (rule.ok()) {
    const storage::FieldRule& restored = **rule;
    MR_CHECK(restored.class_field() >= -1 &&
             restored.class_field() < restored.schema().fields_size());
    MR_CHECK(storage::FileRule::Restore(restored.Encode()).ok());
  }
  const auto again =
      storage::ExtentIndex::FromBytes(index.WithHead(index.head()));
  MR_CHECK(again.ok()) << again.status().message();
  MR_CHECK((*again)->ListingSum() == index.ListingSum());
  MR_CHECK(touched != 1 || size > 0);  // the bytes were read
  return true;
}

void Repair(std::string& input) {
  constexpr size_t kPrefix = 24;
  if (input.size() < kPrefix) return;
  const uint64_t sum =
      XXH3_64bits(input.data() + kPrefix, input.size() - kPrefix);
  std::memcpy(input.data() + 16, &sum, sizeof(sum));
}

std::vector<std::string> Seeds() {
  return {storage::MakeIndex(false).Encode(), storage::MakeIndex(true).Encode(),
          storage::MakeFileIndex().Encode()};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = Repair};
  return target;
}

}  // namespace millrace
