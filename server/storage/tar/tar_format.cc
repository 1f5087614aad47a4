#include "server/storage/tar/tar_format.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/one_suffix.h"
#include "server/storage/shard_paths.h"
#include "server/storage/tar/tar_rule.h"
#include "server/storage/tar/tar_walker.h"
#include "server/storage/unpack/packed_names.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kScheme = "tar";

// Of the shards in a folder.
constexpr absl::string_view kSuffixes[] = {".tar",     ".tar.gz",   ".tgz",
                                           ".tar.zst", ".tar.zstd", ".tar.bz2"};

// A text longer than this is no number.
constexpr uint64_t kMaxIntegerBytes = 64;

struct Compression {
  absl::string_view start;
  absl::string_view name;
  absl::string_view command;
  // Where an archive of this compression cannot be read: how to make one that
  // can.
  absl::string_view recompress = "";
};
constexpr Compression kCompressions[] = {
    {"\x1F\x8B", "gzip", "gzip -d"},
    {"\x28\xB5\x2F\xFD", "Zstandard", "zstd -d"},
    {"BZh", "bzip2", "bzip2 -d"},
    {"\xFD"
     "7zXZ",
     "xz", "xz -d", "xz -dc x.tar.xz | zstd -o x.tar.zst"},
    {"\x04\x22\x4D\x18", "LZ4", "lz4 -d",
     "lz4 -dc x.tar.lz4 | zstd -o x.tar.zst"},
};

absl::Status CheckCompression(ObjectWindow& window) {
  const uint64_t bytes = std::min<uint64_t>(window.size(), 8);
  MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> start,
                      window.At(0, bytes));
  const absl::string_view text(reinterpret_cast<const char*>(start.data()),
                               start.size());
  for (const Compression& compression : kCompressions) {
    if (!absl::StartsWith(text, compression.start)) continue;
    if (!compression.recompress.empty()) {
      return absl::UnimplementedError(absl::StrCat(
          "byte 0: the archive is compressed (", compression.name,
          "), which is not read; gzip, Zstandard and bzip2 are (.gz, .tgz, "
          ".zst, .zstd, .bz2): decompress it (`",
          compression.command, " FILE`), or compress it again (`",
          compression.recompress, "`); images gain nothing by compression"));
    }
    return absl::UnimplementedError(absl::StrCat(
        "byte 0: the archive is compressed (", compression.name,
        "), and its name does not end in .gz, .tgz, .zst, .zstd or .bz2: "
        "decompress it "
        "(`",
        compression.command,
        " FILE`), or give it such a name; images gain nothing by "
        "compression"));
  }
  return absl::OkStatus();
}

// Groups the members of an archive into samples.
class TarScanner final : public RecordScanner {
 public:
  TarScanner(ObjectWindow& window, const TarFieldRule& rule)
      : window_(window),
        rule_(rule),
        walker_(window, TarWalker::End::kMarked),
        seen_(rule.fields()) {}

  absl::StatusOr<std::optional<IndexedRecord>> Next() override {
    // The first member of the sample is known from the sample before.
    if (!pending_) MR_RETURN_IF_ERROR(Advance());
    if (!pending_) return std::nullopt;
    IndexedRecord record;
    record.offset = walker_.header_offset();
    std::swap(key_, next_key_);
    std::fill(seen_.begin(), seen_.end(), false);
    others_.clear();
    uint64_t end = 0;
    do {
      end = walker_.data_offset() + walker_.data_bytes();
      MR_RETURN_IF_ERROR(NoteMember(record.offset, &record.class_index));
      MR_RETURN_IF_ERROR(Advance());
    } while (pending_ && next_key_ == key_);
    record.bytes = end - record.offset;
    record.name = absl::CHexEscape(key_);
    if (const absl::Status status = rule_.CheckMembers(seen_, others_);
        !status.ok()) {
      return InSample(record.offset, status.message());
    }
    return record;
  }

 private:
  absl::Status InSample(uint64_t offset, absl::string_view why) const {
    return absl::DataLossError(absl::StrCat("byte ", offset, ": sample ",
                                            absl::CHexEscape(key_), ": ", why));
  }

  // Goes to the next member of a sample; sets next_key_ and extension_.
  absl::Status Advance() {
    for (;;) {
      MR_ASSIGN_OR_RETURN(pending_, walker_.Next());
      if (!pending_) return absl::OkStatus();
      absl::string_view key;
      absl::string_view extension;
      if (!SplitMemberName(walker_.name(), &key, &extension)) continue;
      const absl::string_view folder = walker_.folder();
      next_key_.assign(folder.data(), folder.size());
      next_key_.append(key.data(), key.size());
      extension_.assign(extension.data(), extension.size());
      return absl::OkStatus();
    }
  }

  absl::Status NoteMember(uint64_t sample, std::optional<int64_t>* index) {
    const int field = rule_.FieldOf(extension_);
    if (field < 0) {
      others_ = extension_;
      return absl::OkStatus();
    }
    if (seen_[field]) {
      return InSample(
          sample, absl::StrCat("field '", rule_.schema().fields(field).name(),
                               "' has two members; the second, .",
                               absl::CHexEscape(extension_), ", is at byte ",
                               walker_.header_offset()));
    }
    seen_[field] = true;
    if (field != rule_.class_field()) return absl::OkStatus();
    int64_t value = 0;
    bool good = walker_.data_bytes() <= kMaxIntegerBytes;
    if (good) {
      MR_ASSIGN_OR_RETURN(
          const absl::Span<const uint8_t> text,
          window_.At(walker_.data_offset(), walker_.data_bytes()));
      good = ParseTarInteger(text, &value);
    }
    if (!good) {
      return InSample(
          sample,
          absl::StrCat("field '", rule_.schema().fields(field).name(),
                       "' (member .", extension_, " at byte ",
                       walker_.header_offset(), ") is no whole number"));
    }
    *index = value;
    return absl::OkStatus();
  }

  ObjectWindow& window_;
  const TarFieldRule& rule_;
  TarWalker walker_;
  // Whether the walker is at a member whose sample was not begun: key and
  // extension are those below.
  bool pending_ = false;
  std::string next_key_;
  std::string extension_;
  // Of the sample that Next() collects.
  std::string key_;
  std::vector<bool> seen_;
  std::string others_;
};

// The members of the first sample.
absl::StatusOr<std::vector<TarMember>> FirstSample(ObjectWindow& window) {
  TarWalker walker(window, TarWalker::End::kMarked);
  std::vector<TarMember> members;
  std::string sample;
  for (;;) {
    MR_ASSIGN_OR_RETURN(const bool more, walker.Next());
    if (!more) break;
    absl::string_view key;
    absl::string_view extension;
    if (!SplitMemberName(walker.name(), &key, &extension)) continue;
    const std::string whole = absl::StrCat(walker.folder(), key);
    if (!members.empty() && whole != sample) break;
    sample = whole;
    TarMember member{.extension = absl::AsciiStrToLower(extension)};
    for (const TarMember& other : members) {
      if (other.extension != member.extension) continue;
      return absl::DataLossError(
          absl::StrCat("byte ", walker.header_offset(), ": sample ",
                       absl::CHexEscape(sample), " has two members .",
                       absl::CHexEscape(extension)));
    }
    if (absl::EndsWith(member.extension, "npy")) {
      MR_ASSIGN_OR_RETURN(
          const absl::Span<const uint8_t> start,
          window.At(walker.data_offset(),
                    std::min(walker.data_bytes(), kNpyStartBytes)));
      member.bytes.assign(start.begin(), start.end());
    }
    members.push_back(std::move(member));
  }
  if (members.empty()) {
    return absl::DataLossError(
        "byte 0: the archive has no samples: their members are named "
        "KEY.EXTENSION (0001.jpg, 0001.cls)");
  }
  return members;
}

class Format final : public ExtentFormat {
 public:
  absl::string_view scheme() const override { return kScheme; }

  absl::StatusOr<ObjectList> List(const std::string& path,
                                  const FormatOptions& options) const override {
    MR_RETURN_IF_ERROR(CheckOptions(kScheme, options, {"fields"}));
    MR_ASSIGN_OR_RETURN(ShardPaths shards,
                        FindShardsOfOneSuffix(path, kSuffixes));
    ObjectList list;
    list.names = std::move(shards.files);
    list.packed = PackedByName(list.names);
    list.packed.instead = absl::StrCat(
        "decompress the shards, or import the dataset once: `millrace-data "
        "pack --input=",
        ShellWord(absl::StrCat(kScheme, ":", path)),
        " --cache_dir=DIR --output=lmdb:FILE`");
    return list;
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> NewRule(
      const ObjectList&, const FormatOptions& options,
      ObjectWindow& first) const override {
    MR_RETURN_IF_ERROR(CheckCompression(first));
    MR_ASSIGN_OR_RETURN(const std::vector<TarMember> members,
                        FirstSample(first));
    return MakeTarRule(options, members);
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> RestoreRule(
      absl::string_view encoded) const override {
    TarRule rule;
    if (!rule.ParseFromArray(encoded.data(),
                             static_cast<int>(encoded.size()))) {
      return absl::DataLossError("the rule of a tar dataset is damaged");
    }
    return TarFieldRule::Create(std::move(rule));
  }

  absl::StatusOr<std::unique_ptr<RecordScanner>> Scan(
      ObjectWindow& window, const FieldRule& rule) const override {
    MR_RETURN_IF_ERROR(CheckCompression(window));
    return std::make_unique<TarScanner>(window,
                                        static_cast<const TarFieldRule&>(rule));
  }
};

}  // namespace

const ExtentFormat& TarFormat() {
  static const Format format;
  return format;
}

}  // namespace millrace::storage
