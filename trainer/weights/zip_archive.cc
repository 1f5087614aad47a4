#include "trainer/weights/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::weights {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kEnd64LocatorBytes = 20;
constexpr size_t kMaxComment = 65535;
constexpr uint16_t kExtraSizes64 = 1;
constexpr uint16_t kVersion64 = 45;  // 4.5, the first one with ZIP64
// An extra field that readers skip; torch.save uses the same ID.
constexpr uint16_t kExtraPadding = 0x4246;
constexpr uint32_t kFull32 = 0xFFFFFFFF;
constexpr uint16_t kFull16 = 0xFFFF;
constexpr size_t kAlignment = 64;

absl::Status Bad(absl::string_view what) { return absl::DataLossError(what); }

// Reads little-endian numbers one after another. After the end of the bytes it
// returns 0, and good() is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  uint64_t Take(size_t count) {
    if (count > bytes_.size()) {
      good_ = false;
      bytes_ = {};
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = count; i > 0; --i) {
      value = value << 8 | static_cast<uint8_t>(bytes_[i - 1]);
    }
    bytes_.remove_prefix(count);
    return value;
  }
  absl::string_view TakeBytes(size_t count) {
    if (count > bytes_.size()) {
      good_ = false;
      return {};
    }
    const absl::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  void Skip(size_t count) { TakeBytes(count); }
  bool good() const { return good_; }
  bool empty() const { return bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool good_ = true;
};

// The bytes from `at` on; empty when `at` is beyond the end.
absl::string_view From(absl::string_view bytes, uint64_t at) {
  return at > bytes.size() ? absl::string_view() : bytes.substr(at);
}

struct Directory {
  uint64_t at = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

absl::StatusOr<Directory> FindDirectory(absl::string_view file) {
  if (file.size() < kEndBytes) return Bad("it is too short for a ZIP archive");
  const size_t first =
      file.size() - std::min(file.size(), kEndBytes + kMaxComment);
  for (size_t end = file.size() - kEndBytes + 1; end-- > first;) {
    Reader reader(file.substr(end));
    if (reader.Take(4) != kEnd) continue;
    const uint64_t disk = reader.Take(2);
    reader.Take(2);
    reader.Take(2);
    Directory directory;
    directory.entries = reader.Take(2);
    directory.bytes = reader.Take(4);
    directory.at = reader.Take(4);
    // The archive's comment may contain the signature by chance: the comment
    // after the real one ends with the file.
    if (reader.Take(2) != file.size() - end - kEndBytes) continue;
    if (end >= kEnd64LocatorBytes) {
      Reader locator(file.substr(end - kEnd64LocatorBytes));
      if (locator.Take(4) == kEnd64Locator) {
        locator.Take(4);
        Reader end64(From(file, locator.Take(8)).substr(0, kEnd64Bytes));
        if (end64.Take(4) != kEnd64) {
          return Bad("the archive's directory is damaged");
        }
        end64.Skip(8 + 2 + 2 + 4 + 4 + 8);
        directory.entries = end64.Take(8);
        directory.bytes = end64.Take(8);
        directory.at = end64.Take(8);
        if (!end64.good()) return Bad("the archive's directory is damaged");
      }
    }
    if (disk != 0 && disk != kFull16) {
      return Bad("the archive is split over several files");
    }
    if (directory.at > file.size() ||
        directory.bytes > file.size() - directory.at) {
      return Bad("the archive's directory is beyond its end: it is truncated");
    }
    return directory;
  }
  return Bad(
      "it does not end with a ZIP directory: it is truncated, or no archive");
}

absl::StatusOr<ZipEntry> ReadEntry(absl::string_view file, Reader& directory) {
  if (directory.Take(4) != kDirectoryEntry) {
    return Bad("the archive's directory is damaged");
  }
  directory.Skip(4);
  const uint64_t flags = directory.Take(2);
  const uint64_t method = directory.Take(2);
  directory.Skip(4);
  const uint64_t crc = directory.Take(4);
  uint64_t packed = directory.Take(4);
  uint64_t size = directory.Take(4);
  const uint64_t name_bytes = directory.Take(2);
  const uint64_t extra_bytes = directory.Take(2);
  const uint64_t comment_bytes = directory.Take(2);
  directory.Skip(8);
  uint64_t at = directory.Take(4);
  ZipEntry entry;
  entry.name = std::string(directory.TakeBytes(name_bytes));
  Reader extra(directory.TakeBytes(extra_bytes));
  directory.Skip(comment_bytes);
  if (!directory.good()) return Bad("the archive's directory is truncated");
  auto bad = [&entry](absl::string_view what) {
    return Bad(absl::StrCat("the entry \"", entry.name, "\" ", what));
  };
  while (!extra.empty()) {
    const uint64_t id = extra.Take(2);
    Reader field(extra.TakeBytes(extra.Take(2)));
    if (!extra.good()) return bad("has a damaged entry");
    if (id != kExtraSizes64) continue;
    // Only the numbers that did not fit above, in this order.
    for (uint64_t* value : {&size, &packed, &at}) {
      if (*value == kFull32) *value = field.Take(8);
    }
    if (!field.good()) return bad("has a damaged entry");
  }
  if ((flags & 1) != 0) return bad("is encrypted");
  entry.compressed = method != 0;
  if (!entry.compressed && packed != size)
    return bad("is stored, but has two sizes");
  Reader local(From(file, at));
  if (local.Take(4) != kLocalHeader)
    return bad("is not at its place in the directory");
  local.Skip(kLocalHeaderBytes - 4 - 4);
  const uint64_t skip = local.Take(2) + local.Take(2);
  local.Skip(skip);
  entry.data = local.TakeBytes(packed);
  if (!local.good()) return bad("reaches beyond the file: it is truncated");
  if (!entry.compressed && crc != Crc32(entry.data)) {
    return bad("is damaged: its bytes do not match its CRC-32");
  }
  return entry;
}

// `value`, below 2^64, in `bytes` bytes, little-endian.
void Put(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i, value >>= 8) {
    out.push_back(static_cast<char>(value));
  }
}

}  // namespace

uint32_t Crc32(absl::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

absl::StatusOr<std::vector<ZipEntry>> ParseZip(absl::string_view file) {
  MR_ASSIGN_OR_RETURN(const Directory place, FindDirectory(file));
  // Before memory is allocated for the entries.
  if (place.entries > place.bytes / kDirectoryEntryBytes) {
    return Bad("the archive's directory is damaged");
  }
  Reader directory(file.substr(place.at, place.bytes));
  std::vector<ZipEntry> entries;
  absl::flat_hash_set<std::string> names;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < place.entries; ++i) {
    MR_ASSIGN_OR_RETURN(ZipEntry entry, ReadEntry(file, directory));
    if (!names.insert(entry.name).second) {
      return Bad(absl::StrCat("the entry \"", entry.name, "\" comes twice"));
    }
    // Entries that share their bytes would have these checked many times.
    bytes += entry.data.size();
    if (bytes > file.size()) return Bad("entries of the archive overlap");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string ToZip(const std::vector<ZipEntry>& entries) {
  std::string file;
  WriteZip(entries, [&](absl::string_view bytes) {
    file.append(bytes.data(), bytes.size());
  });
  return file;
}

void WriteZip(const std::vector<ZipEntry>& entries, const ByteSink& sink) {
  uint64_t at = 0;  // bytes that the sink received
  const auto write = [&](absl::string_view bytes) {
    sink(bytes);
    at += bytes.size();
  };
  std::string directory;
  for (const ZipEntry& entry : entries) {
    const uint64_t begin_at = at;
    const uint64_t size = entry.data.size();
    const uint32_t crc = Crc32(entry.data);
    // The fields that a local header and its directory entry share: version
    // 4.5, no flags, stored, 1 January 1980, and sizes in the extra field.
    const auto put_common = [&](std::string& out) {
      Put(out, kVersion64, 2);
      Put(out, 0, 2 + 2 + 2);
      Put(out, 0x21, 2);
      Put(out, crc, 4);
      Put(out, kFull32, 4);
      Put(out, kFull32, 4);
      Put(out, entry.name.size(), 2);
    };
    const uint64_t data_at =
        begin_at + kLocalHeaderBytes + entry.name.size() + 4 + 2 * 8 + 4;
    const size_t padding = (kAlignment - data_at % kAlignment) % kAlignment;
    std::string head;
    Put(head, kLocalHeader, 4);
    put_common(head);
    Put(head, 4 + 2 * 8 + 4 + padding, 2);
    head += entry.name;
    Put(head, kExtraSizes64, 2);
    Put(head, 2 * 8, 2);
    Put(head, size, 8);
    Put(head, size, 8);
    Put(head, kExtraPadding, 2);
    Put(head, padding, 2);
    head.append(padding, 'Z');
    write(head);
    write(entry.data);

    Put(directory, kDirectoryEntry, 4);
    Put(directory, kVersion64, 2);
    put_common(directory);
    Put(directory, 4 + 3 * 8, 2);
    Put(directory, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
    Put(directory, kFull32, 4);        // the place, in the extra field
    directory += entry.name;
    Put(directory, kExtraSizes64, 2);
    Put(directory, 3 * 8, 2);
    Put(directory, size, 8);
    Put(directory, size, 8);
    Put(directory, begin_at, 8);
  }
  const uint64_t directory_at = at;
  write(directory);
  const uint64_t end64_at = at;
  std::string end;
  Put(end, kEnd64, 4);
  Put(end, kEnd64Bytes - 12, 8);
  Put(end, kVersion64, 2);
  Put(end, kVersion64, 2);
  Put(end, 0, 4 + 4);  // disks
  Put(end, entries.size(), 8);
  Put(end, entries.size(), 8);
  Put(end, directory.size(), 8);
  Put(end, directory_at, 8);
  Put(end, kEnd64Locator, 4);
  Put(end, 0, 4);
  Put(end, end64_at, 8);
  Put(end, 1, 4);
  // The short form of the end says that all numbers are in the long one.
  Put(end, kEnd, 4);
  Put(end, 0, 2 + 2);
  Put(end, kFull16, 2);
  Put(end, kFull16, 2);
  Put(end, kFull32, 4);
  Put(end, kFull32, 4);
  Put(end, 0, 2);
  write(end);
}

}  // namespace millrace::weights
