#include "trainer/weights/zip_archive.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace {
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
constexpr size_t kLongestComment = 65535;
constexpr uint16_t kExtraSizes64 = 1;
// An extra field that nobody reads; its ID is the one that torch.save takes.
constexpr uint16_t kExtraPadding = 0x4246;
constexpr uint32_t kFull32 = 0xFFFFFFFF;
constexpr uint16_t kFull16 = 0xFFFF;
constexpr size_t kAlignment = 64;

absl::Status Bad(absl::string_view what) { return absl::DataLossError(what); }

// Numbers at a place of the bytes; zero and no success outside of them.
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

// Everything of `bytes` from `at` on; nothing when that is outside.
absl::string_view From(absl::string_view bytes, uint64_t at) {
  return at > bytes.size() ? absl::string_view() : bytes.substr(at);
}

struct Directory {
  uint64_t at = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

absl::StatusOr<Directory> FindDirectory(absl::string_view file) {
  if (file.size() < kEndBytes) return Bad("it is too short for an archive");
  const size_t first =
      file.size() - std::min(file.size(), kEndBytes + kLongestComment);
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
    // The signature may stand in a comment by chance: the real one's comment
    // ends with the file.
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
      return Bad("the archive is one of several files");
    }
    if (directory.at > file.size() ||
        directory.bytes > file.size() - directory.at) {
      return Bad("the archive's directory lies outside of it: it is cut");
    }
    return directory;
  }
  return Bad(
      "it has no directory of an archive at its end: it is cut, or "
      "something else");
}

absl::StatusOr<ZipMember> ReadEntry(absl::string_view file, Reader& directory) {
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
  ZipMember member;
  member.name = std::string(directory.TakeBytes(name_bytes));
  Reader extra(directory.TakeBytes(extra_bytes));
  directory.Skip(comment_bytes);
  if (!directory.good()) return Bad("the archive's directory is cut");
  auto bad = [&member](absl::string_view what) {
    return Bad(absl::StrCat("the member \"", member.name, "\" ", what));
  };
  while (!extra.empty()) {
    const uint64_t id = extra.Take(2);
    Reader field(extra.TakeBytes(extra.Take(2)));
    if (!extra.good()) return bad("has a damaged entry");
    if (id != kExtraSizes64) continue;
    // Those alone that did not fit above, in this order.
    for (uint64_t* value : {&size, &packed, &at}) {
      if (*value == kFull32) *value = field.Take(8);
    }
    if (!field.good()) return bad("has a damaged entry");
  }
  if ((flags & 1) != 0) return bad("is encrypted");
  member.compressed = method != 0;
  if (!member.compressed && packed != size) return bad("has two sizes");
  Reader local(From(file, at));
  if (local.Take(4) != kLocalHeader) return bad("is not where it should be");
  local.Skip(kLocalHeaderBytes - 4 - 4);
  const uint64_t skip = local.Take(2) + local.Take(2);
  local.Skip(skip);
  member.data = local.TakeBytes(packed);
  if (!local.good()) return bad("lies outside of the file: it is cut");
  if (!member.compressed && crc != Crc32(member.data)) {
    return bad("is damaged: its bytes differ from its checksum");
  }
  return member;
}

void Put(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i)));
  }
}

uint64_t Capped(uint64_t value) { return std::min<uint64_t>(value, kFull32); }

}  // namespace

uint32_t Crc32(absl::string_view bytes) {
  // Four bytes at a time: table[k] is the table of a byte with k zeros behind.
  static const auto* const tables = [] {
    auto* t = new std::array<std::array<uint32_t, 256>, 4>;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
      }
      (*t)[0][i] = crc;
    }
    for (size_t k = 1; k < t->size(); ++k) {
      for (size_t i = 0; i < 256; ++i) {
        const uint32_t before = (*t)[k - 1][i];
        (*t)[k][i] = (before >> 8) ^ (*t)[0][before & 0xFF];
      }
    }
    return t;
  }();
  const auto& t = *tables;
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  uint32_t crc = 0xFFFFFFFF;
  for (; left >= 4; left -= 4, p += 4) {
    crc ^= static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
           static_cast<uint32_t>(p[2]) << 16 |
           static_cast<uint32_t>(p[3]) << 24;
    crc = t[3][crc & 0xFF] ^ t[2][(crc >> 8) & 0xFF] ^
          t[1][(crc >> 16) & 0xFF] ^ t[0][crc >> 24];
  }
  for (; left > 0; --left, ++p) crc = (crc >> 8) ^ t[0][(crc ^ *p) & 0xFF];
  return ~crc;
}

absl::StatusOr<std::vector<ZipMember>> ParseZip(absl::string_view file) {
  MR_ASSIGN_OR_RETURN(const Directory place, FindDirectory(file));
  // Before room is made for so many.
  if (place.entries > place.bytes / kDirectoryEntryBytes) {
    return Bad("the archive's directory is damaged");
  }
  Reader directory(file.substr(place.at, place.bytes));
  std::vector<ZipMember> members;
  absl::flat_hash_set<std::string> names;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < place.entries; ++i) {
    MR_ASSIGN_OR_RETURN(ZipMember member, ReadEntry(file, directory));
    if (!names.insert(member.name).second) {
      return Bad(absl::StrCat("the member \"", member.name, "\" comes twice"));
    }
    // Members that share their bytes would have them checked again and again.
    bytes += member.data.size();
    if (bytes > file.size()) return Bad("members of the archive overlap");
    members.push_back(std::move(member));
  }
  return members;
}

std::string ToZip(const std::vector<ZipMember>& members) {
  std::string file;
  WriteZip(members, [&](absl::string_view bytes) {
    file.append(bytes.data(), bytes.size());
  });
  return file;
}

void WriteZip(const std::vector<ZipMember>& members, const ByteSink& sink) {
  uint64_t at = 0;  // bytes that the sink has taken
  const auto write = [&](absl::string_view bytes) {
    sink(bytes);
    at += bytes.size();
  };
  std::string directory;
  for (const ZipMember& member : members) {
    const uint64_t begin_at = at;
    const uint64_t size = member.data.size();
    const uint32_t crc = Crc32(member.data);
    // 2.0, or 4.5 for sizes of 64 bits; no flags, stored, 1 January 1980.
    const bool long_size = size >= kFull32;
    const auto begin = [&](std::string& out, bool long_form) {
      Put(out, long_form ? 45 : 20, 2);
      Put(out, 0, 2);
      Put(out, 0, 2);
      Put(out, 0, 2);
      Put(out, 0x21, 2);
      Put(out, crc, 4);
      Put(out, long_size ? kFull32 : size, 4);
      Put(out, long_size ? kFull32 : size, 4);
      Put(out, member.name.size(), 2);
    };
    std::string extra;
    if (long_size) {
      Put(extra, kExtraSizes64, 2);
      Put(extra, 16, 2);
      Put(extra, size, 8);
      Put(extra, size, 8);
    }
    const uint64_t bare =
        begin_at + kLocalHeaderBytes + member.name.size() + extra.size() + 4;
    const size_t padding = (kAlignment - bare % kAlignment) % kAlignment;
    Put(extra, kExtraPadding, 2);
    Put(extra, padding, 2);
    extra.append(padding, 'Z');
    std::string head;
    Put(head, kLocalHeader, 4);
    begin(head, long_size);
    Put(head, extra.size(), 2);
    head += member.name;
    head += extra;
    write(head);
    write(member.data);

    std::string sizes;
    if (long_size) {
      Put(sizes, size, 8);
      Put(sizes, size, 8);
    }
    if (begin_at >= kFull32) Put(sizes, begin_at, 8);
    Put(directory, kDirectoryEntry, 4);
    Put(directory, 45, 2);
    begin(directory, !sizes.empty());
    Put(directory, sizes.empty() ? 0 : sizes.size() + 4, 2);
    Put(directory, 0, 2);  // comment
    Put(directory, 0, 2);  // disk
    Put(directory, 0, 2);
    Put(directory, 0, 4);
    Put(directory, Capped(begin_at), 4);
    directory += member.name;
    if (!sizes.empty()) {
      Put(directory, kExtraSizes64, 2);
      Put(directory, sizes.size(), 2);
      directory += sizes;
    }
  }
  const uint64_t directory_at = at;
  const uint64_t entries = members.size();
  write(directory);
  std::string end;  // the end of it
  if (directory_at >= kFull32 || directory.size() >= kFull32 ||
      entries >= kFull16) {
    const uint64_t end64 = at;
    Put(end, kEnd64, 4);
    Put(end, kEnd64Bytes - 12, 8);
    Put(end, 45, 2);
    Put(end, 45, 2);
    Put(end, 0, 4);
    Put(end, 0, 4);
    Put(end, entries, 8);
    Put(end, entries, 8);
    Put(end, directory.size(), 8);
    Put(end, directory_at, 8);
    Put(end, kEnd64Locator, 4);
    Put(end, 0, 4);
    Put(end, end64, 8);
    Put(end, 1, 4);
  }
  Put(end, kEnd, 4);
  Put(end, 0, 2);
  Put(end, 0, 2);
  Put(end, std::min<uint64_t>(entries, kFull16), 2);
  Put(end, std::min<uint64_t>(entries, kFull16), 2);
  Put(end, Capped(directory.size()), 4);
  Put(end, Capped(directory_at), 4);
  Put(end, 0, 2);
  write(end);
}

}  // namespace millrace
