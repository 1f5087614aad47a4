// Fuzz target of tar shards: whatever an archive holds, its scan ends, every
// record lies inside it and behind the one before, and splitting a record stays
// inside the record.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/storage/extents/memory_window.h"
#include "server/storage/sample_check.h"
#include "server/storage/tar/tar_format.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace {
namespace {

using storage::FieldRule;

bool Inside(absl::Span<const uint8_t> part, absl::Span<const uint8_t> whole) {
  return part.data() >= whole.data() &&
         part.data() + part.size() <= whole.data() + whole.size();
}

bool Run(const uint8_t* data, size_t size) {
  const absl::Span<const uint8_t> archive(data, size);
  const storage::ExtentFormat& format = storage::TarFormat();
  storage::MemoryWindow window(archive);
  auto rule = format.NewRule({}, {}, window);
  if (!rule.ok()) return false;
  // A server finds the rule in its index.
  const auto restored = format.RestoreRule((*rule)->Encode());
  MR_CHECK(restored.ok()) << restored.status().message();
  MR_CHECK((*restored)->Encode() == (*rule)->Encode());
  const FieldRule& used = **restored;
  const auto check = storage::SampleCheck::Create(used.schema());
  MR_CHECK(check.ok()) << check.status().message();
  const auto scanner = format.Scan(window, used);
  MR_CHECK(scanner.ok()) << scanner.status().message();
  storage::RecordFields fields(used.schema().fields_size());
  uint64_t end = 0;
  bool good = false;
  for (;;) {
    const auto record = (*scanner)->Next();
    if (!record.ok()) return false;
    if (!record->has_value()) return good;
    const storage::IndexedRecord& found = **record;
    MR_CHECK(found.offset >= end && found.offset <= size);
    MR_CHECK(found.bytes <= size - found.offset);
    end = found.offset + found.bytes;
    const absl::Span<const uint8_t> bytes =
        archive.subspan(found.offset, found.bytes);
    fields.Clear();
    const absl::Status split = used.Split(bytes, {}, &fields);
    used.NameOf(bytes);
    if (!split.ok()) return false;
    good = true;
    if (!check->Check(fields.all()).ok()) continue;
    for (int i = 0; i < used.schema().fields_size(); ++i) {
      const absl::Span<const uint8_t> field = fields.all()[i];
      if (i != used.class_field()) {
        MR_CHECK(Inside(field, bytes) || field.size() == sizeof(int64_t) ||
                 field.empty());
      } else if (found.class_index.has_value()) {
        MR_CHECK(std::memcmp(field.data(), &*found.class_index,
                             sizeof(int64_t)) == 0)
            << "scan and record differ";
      }
    }
  }
}

void Repair(std::string& input) {
  for (size_t at = 0; at + 512 <= input.size(); at += 512) {
    if (input.compare(at + 257, 5, "ustar") != 0) continue;
    std::string header = input.substr(at, 512);
    storage::SignTarHeader(&header);
    input.replace(at, 512, header);
  }
}

std::vector<std::string> Seeds() {
  using storage::PaxBytes;
  using storage::TarEnd;
  using storage::TarMemberBytes;
  const std::string npy = absl::StrCat(
      "\x93NUMPY\x01", std::string(1, '\0'), "\x3A", std::string(1, '\0'),
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } \n",
      std::string(8, 'f'));
  const std::string name(120, 'n');
  return {
      TarMemberBytes("a/1.jpg", "one") + TarMemberBytes("a/1.cls", "1\n") +
          TarMemberBytes("a/2.png", "two") + TarMemberBytes("a/2.cls", "20") +
          TarEnd(),
      TarMemberBytes("1.json", "{}") + TarMemberBytes("1.npy", npy) +
          TarMemberBytes("1.seg.png", "mask") + TarMemberBytes("1.id", "7") +
          TarEnd(),
      PaxBytes("path", name + "/1.jpg") + TarMemberBytes("cut", "pax") +
          PaxBytes("mtime", "1.5") + TarMemberBytes("2.jpg", "float") +
          TarMemberBytes("././@LongLink", name + ".jpg" + '\0', 'L') +
          TarMemberBytes("cut", "gnu") + TarEnd(),
      TarMemberBytes("dir/", "", '5') + TarMemberBytes("README", "x") +
          TarMemberBytes("1.txt", "text", '0', "a/prefix") + TarEnd(),
  };
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = Repair};
  return target;
}

}  // namespace millrace
