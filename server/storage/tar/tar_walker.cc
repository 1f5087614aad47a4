#include "server/storage/tar/tar_walker.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kBlock = TarWalker::kBlockBytes;

// Places in a header.
struct Place {
  size_t at;
  size_t bytes;
};
constexpr Place kName = {0, 100};
constexpr Place kSize = {124, 12};
constexpr Place kChecksum = {148, 8};
constexpr size_t kTypeAt = 156;
constexpr Place kMagic = {257, 6};
constexpr Place kPrefix = {345, 155};

absl::string_view View(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::string_view FieldOf(absl::Span<const uint8_t> header, Place place) {
  return View(header.subspan(place.at, place.bytes));
}

// Up to the first zero.
absl::string_view TextOf(absl::Span<const uint8_t> header, Place place) {
  const absl::string_view field = FieldOf(header, place);
  return field.substr(0, field.find('\0'));
}

// An octal number between spaces and zeros, or one in base 256 with the first
// bit set. False: it is none, or more than 63 bits.
bool ParseNumber(absl::string_view field, uint64_t* number) {
  *number = 0;
  const auto byte = [](char c) { return static_cast<uint8_t>(c); };
  if (!field.empty() && (byte(field[0]) & 0x80) != 0) {
    if (byte(field[0]) != 0x80) return false;  // negative or far too large
    for (const char c : field.substr(1)) {
      if (*number >> 55 != 0) return false;
      *number = *number << 8 | byte(c);
    }
    return true;
  }
  size_t at = 0;
  while (at < field.size() && field[at] == ' ') ++at;
  const size_t digits = at;
  while (at < field.size() && field[at] >= '0' && field[at] <= '7') {
    *number = *number << 3 | static_cast<uint64_t>(field[at++] - '0');
  }
  if (at == digits) return false;
  return std::all_of(field.begin() + static_cast<ptrdiff_t>(at), field.end(),
                     [](char c) { return c == ' ' || c == '\0'; });
}

bool IsZero(absl::Span<const uint8_t> block) {
  return std::all_of(block.begin(), block.end(),
                     [](uint8_t byte) { return byte == 0; });
}

// Old programs have summed signed bytes.
bool HasChecksum(absl::Span<const uint8_t> header) {
  uint64_t expected;
  if (!ParseNumber(FieldOf(header, kChecksum), &expected)) return false;
  uint32_t sum = 0;
  uint32_t high = 0;  // bytes with the first bit set
  for (const uint8_t byte : header) {
    sum += byte;
    high += byte >> 7;
  }
  for (const uint8_t byte : header.subspan(kChecksum.at, kChecksum.bytes)) {
    sum += ' ';
    sum -= byte;
    high -= byte >> 7;
  }
  return expected == sum || expected == static_cast<uint32_t>(sum - 256 * high);
}

uint64_t Padded(uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

absl::Status TarWalker::Damaged(uint64_t offset, absl::string_view why) const {
  return absl::DataLossError(absl::StrCat("byte ", offset, ": ", why));
}

void TarWalker::SetPath(absl::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t begin = slash == path.npos ? 0 : slash + 1;
  folder_ = path.substr(0, begin);
  name_ = path.substr(begin);
}

void TarWalker::SetPath(absl::Span<const uint8_t> header) {
  SetPath(TextOf(header, kName));
  // GNU's own headers use the place of the prefix for times.
  if (FieldOf(header, kMagic) != absl::string_view("ustar\0", 6)) return;
  const absl::string_view prefix = TextOf(header, kPrefix);
  if (prefix.empty()) return;
  joined_.assign(prefix.data(), prefix.size());
  joined_ += '/';
  joined_.append(folder_.data(), folder_.size());
  folder_ = joined_;
}

absl::StatusOr<bool> TarWalker::Next() {
  Extensions extensions;
  header_offset_ = at_;
  for (;;) {
    const uint64_t offset = at_;
    if (offset >= window_.size()) {
      if (extensions.any) {
        return Damaged(offset,
                       "the archive ends before a member: it was cut "
                       "off; copy it again");
      }
      if (end_ == End::kOpen) return false;
      return Damaged(window_.size(),
                     "the archive has no end mark: it was cut off; copy it "
                     "again");
    }
    MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> header,
                        window_.At(offset, kBlock));
    if (IsZero(header)) {
      if (extensions.any || end_ == End::kOpen) {
        return Damaged(offset, "the header of a member is missing");
      }
      MR_RETURN_IF_ERROR(CheckEnd(offset + kBlock));
      return false;
    }
    if (!HasChecksum(header)) {
      return Damaged(
          offset,
          absl::StrCat("there is no tar header: its checksum is wrong (name '",
                       absl::CHexEscape(TextOf(header, kName).substr(0, 60)),
                       "'); copy the archive again"));
    }
    const char type = static_cast<char>(header[kTypeAt]);
    // Read before the window moves.
    uint64_t bytes = 0;
    if (!ParseNumber(FieldOf(header, kSize), &bytes)) {
      return Damaged(
          offset, absl::StrCat("the size of member '",
                               absl::CHexEscape(TextOf(header, kName)), "' ('",
                               absl::CHexEscape(FieldOf(header, kSize)),
                               "') is no octal number"));
    }
    const bool is_extension =
        type == 'L' || type == 'K' || type == 'x' || type == 'g' || type == 'X';
    if (!is_extension) {
      if (extensions.has_path) {
        SetPath(path_);
      } else {
        SetPath(header);
      }
      if (extensions.bytes.has_value()) bytes = *extensions.bytes;
    }
    // Links, devices and folders have no data, whatever their size says.
    if (type >= '1' && type <= '6') bytes = 0;
    const uint64_t data = offset + kBlock;
    if (bytes > window_.size() - data) {
      return Damaged(
          offset,
          absl::StrCat("the data of member '", folder_, name_, "' (", bytes,
                       " bytes) end after the archive (", window_.size(),
                       " bytes): it was cut off; copy it again"));
    }
    // The last member of a part has no padding.
    at_ = std::min(data + Padded(bytes), window_.size());
    if (end_ == End::kMarked && at_ - data < Padded(bytes)) {
      return Damaged(window_.size(),
                     "the archive has no end mark: it was cut off; copy it "
                     "again");
    }
    if (is_extension) {
      extensions.any = true;
      if (bytes > kMaxExtensionBytes) {
        return Damaged(offset,
                       absl::StrCat("a header of ", bytes,
                                    " bytes for the next member is too large"));
      }
      data_offset_ = data;
      if (type == 'L') MR_RETURN_IF_ERROR(ReadLongName(bytes, &extensions));
      if (type == 'x' || type == 'X' || type == 'g') {
        MR_RETURN_IF_ERROR(ReadPax(bytes, type == 'g', &extensions));
      }
      continue;
    }
    const auto refused = [&](absl::string_view why) {
      return absl::UnimplementedError(absl::StrCat(
          "byte ", offset, ": member '", folder_, name_, "' ", why));
    };
    switch (type) {
      case '0':
      case '\0':
      case '7':
        break;
      case '1':
      case '2':
        return refused(
            "is a link, and samples are bytes of the archive: write the "
            "archive with `tar --dereference --hard-dereference`");
      case 'S':
        return refused("is sparse: write the archive without --sparse");
      case 'M':
        return refused("continues another archive: write it as one archive");
      case '3':  // devices
      case '4':
      case '5':  // a folder
      case '6':  // a FIFO
      case 'D':  // a folder with a list of its files
      case 'V':  // a volume label
        header_offset_ = at_;
        extensions = {};
        continue;
      default:  // POSIX: programs read unknown types as regular files
        break;
    }
    // Old programs mark folders by a slash.
    if (name_.empty()) {
      header_offset_ = at_;
      extensions = {};
      continue;
    }
    data_offset_ = data;
    data_bytes_ = bytes;
    return true;
  }
}

absl::Status TarWalker::ReadLongName(uint64_t bytes, Extensions* extensions) {
  MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> data,
                      window_.At(data_offset_, bytes));
  const absl::string_view text = View(data);
  const absl::string_view path = text.substr(0, text.find('\0'));
  path_.assign(path.data(), path.size());
  extensions->has_path = true;
  return absl::OkStatus();
}

absl::Status TarWalker::ReadPax(uint64_t bytes, bool global,
                                Extensions* extensions) {
  MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> data,
                      window_.At(data_offset_, bytes));
  absl::string_view rest = View(data);
  // "LENGTH KEY=VALUE\n", LENGTH of all of it.
  while (!rest.empty()) {
    const auto wrong = [&] {
      return Damaged(data_offset_ + (bytes - rest.size()),
                     "a record of a pax header is damaged");
    };
    const size_t space = rest.find(' ');
    uint64_t length;
    if (space == rest.npos || space > 20 ||
        !absl::SimpleAtoi(rest.substr(0, space), &length) ||
        length > rest.size() || length < space + 3 ||
        rest[length - 1] != '\n') {
      return wrong();
    }
    const absl::string_view record = rest.substr(space + 1, length - space - 2);
    const size_t equals = record.find('=');
    if (equals == record.npos) return wrong();
    const absl::string_view key = record.substr(0, equals);
    const absl::string_view value = record.substr(equals + 1);
    if (absl::StartsWith(key, "GNU.sparse.")) {
      return absl::UnimplementedError(absl::StrCat(
          "byte ", data_offset_,
          ": a member is sparse: write the archive without --sparse"));
    }
    if (key == "path" && !global) {
      path_.assign(value.data(), value.size());
      extensions->has_path = true;
    } else if (key == "size" && !global) {
      uint64_t number;
      if (!absl::SimpleAtoi(value, &number)) return wrong();
      extensions->bytes = number;
    }
    rest.remove_prefix(length);
  }
  return absl::OkStatus();
}

absl::Status TarWalker::CheckEnd(uint64_t offset) {
  constexpr uint64_t kPiece = 64 << 10;
  while (offset < window_.size()) {
    const uint64_t bytes = std::min(kPiece, window_.size() - offset);
    MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> piece,
                        window_.At(offset, bytes));
    if (!IsZero(piece)) {
      return Damaged(offset,
                     "data follow the end mark of the archive: archives that "
                     "were joined by `cat` are not read; name them one by one, "
                     "or join them with `tar --concatenate`");
    }
    offset += bytes;
  }
  return absl::OkStatus();
}

bool SplitMemberName(absl::string_view name, absl::string_view* key,
                     absl::string_view* extension) {
  const size_t dot = name.find('.');
  if (dot == name.npos || dot == 0 || dot + 1 == name.size()) return false;
  if (absl::StartsWith(name, "__") && absl::EndsWith(name, "__")) return false;
  *key = name.substr(0, dot);
  *extension = name.substr(dot + 1);
  return true;
}

}  // namespace millrace::storage
