#include "server/storage/imagefolder/folder_index.h"

#include <xxhash.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "proto/folder_index.pb.h"
#include "server/storage/content_hash.h"
#include "server/storage/image_presets.h"
#include "server/storage/little_endian.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "MRFOLDER";
// Magic, version, length of the head, checksum of all that follows.
constexpr size_t kPrefixBytes = 24;

template <typename T>
T NumberAt(absl::string_view bytes, size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

uint64_t Checksum(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::Status Damaged(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("it is damaged: ", why));
}

// The columns begin at a multiple of 8 bytes.
size_t Padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

std::vector<std::string> FolderIndex::ClassNames() const {
  std::vector<std::string> names(files.classes().size());
  for (const FolderFiles::ClassRange& range : files.classes()) {
    names[range.label] = range.name;
  }
  return names;
}

std::string EncodeFolderIndex(const FolderIndex& index) {
  FolderIndexHead head;
  head.set_folder(index.folder);
  head.set_rules(index.rules);
  head.set_decoders(index.decoders);
  head.set_listed_nanos(index.listed_nanos);
  head.set_samples(index.files.size());
  for (const FolderFiles::ClassRange& range : index.files.classes()) {
    FolderIndexClass* entry = head.add_classes();
    entry->set_name(range.name);
    entry->set_label(range.label);
    entry->set_count(range.count);
  }
  for (const FolderState& state : index.folders) {
    FolderIndexState* entry = head.add_folders();
    entry->set_path(state.path);
    entry->set_modified_nanos(state.modified_nanos);
    entry->set_changed_nanos(state.changed_nanos);
    entry->set_inode(state.inode);
  }
  for (const std::string& warning : index.warnings) {
    head.add_warnings(warning);
  }
  head.set_listing_sum(index.listing_sum);
  head.set_content_sum(index.content_sum);
  const std::string message = head.SerializeAsString();

  std::string out(kMagic);
  out.reserve(kPrefixBytes + message.size() + 8 + index.files.memory_bytes());
  AppendLittleEndian(kFolderIndexVersion, &out);
  AppendLittleEndian(static_cast<uint32_t>(message.size()), &out);
  AppendLittleEndian(uint64_t{0}, &out);
  out += message;
  out.resize(Padded(out.size()));
  index.files.AppendColumns(&out);
  const uint64_t sum = Checksum(absl::string_view(out).substr(kPrefixBytes));
  std::memcpy(out.data() + kPrefixBytes - sizeof(sum), &sum, sizeof(sum));
  return out;
}

absl::Status CheckFolderIndexStart(absl::string_view start) {
  if (start.size() < kPrefixBytes || start.substr(0, 8) != kMagic) {
    return Damaged("it does not begin as an index");
  }
  const auto version = NumberAt<uint32_t>(start, 8);
  if (version != kFolderIndexVersion) {
    return absl::UnimplementedError(absl::StrCat("it is of version ", version,
                                                 ", and this program uses ",
                                                 kFolderIndexVersion));
  }
  return absl::OkStatus();
}

absl::StatusOr<FolderIndex> DecodeFolderIndex(absl::string_view bytes) {
  MR_RETURN_IF_ERROR(CheckFolderIndexStart(bytes));
  const size_t head_bytes = NumberAt<uint32_t>(bytes, 12);
  if (head_bytes > std::min<size_t>(bytes.size() - kPrefixBytes, INT_MAX) ||
      Padded(kPrefixBytes + head_bytes) > bytes.size()) {
    return Damaged("it is too short");
  }
  if (Checksum(bytes.substr(kPrefixBytes)) != NumberAt<uint64_t>(bytes, 16)) {
    return Damaged("its checksum differs");
  }
  FolderIndexHead head;
  if (!head.ParseFromArray(bytes.data() + kPrefixBytes,
                           static_cast<int>(head_bytes))) {
    return Damaged("its head cannot be parsed");
  }
  Hash128 unused;
  if (head.samples() < 1 || !HashFromHex(head.listing_sum(), &unused) ||
      (!head.content_sum().empty() &&
       !HashFromHex(head.content_sum(), &unused))) {
    return Damaged("its head is wrong");
  }
  FolderIndex index;
  index.folder = head.folder();
  index.rules = head.rules();
  index.decoders = head.decoders();
  index.listed_nanos = head.listed_nanos();
  index.listing_sum = head.listing_sum();
  index.content_sum = head.content_sum();
  index.warnings.assign(head.warnings().begin(), head.warnings().end());
  for (const FolderIndexState& state : head.folders()) {
    index.folders.push_back({.path = state.path(),
                             .modified_nanos = state.modified_nanos(),
                             .changed_nanos = state.changed_nanos(),
                             .inode = state.inode()});
  }
  std::vector<FolderFiles::ClassRange> classes;
  int64_t first = 0;
  for (const FolderIndexClass& entry : head.classes()) {
    if (entry.count() < 1 || entry.count() > head.samples() - first ||
        !IsUtf8(entry.name())) {
      return Damaged("its classes are wrong");
    }
    classes.push_back({.name = entry.name(),
                       .label = entry.label(),
                       .first = first,
                       .count = entry.count()});
    first += entry.count();
  }
  absl::StatusOr<FolderFiles> files = FolderFiles::FromColumns(
      std::move(classes), bytes.substr(Padded(kPrefixBytes + head_bytes)),
      static_cast<uint64_t>(head.samples()));
  if (!files.ok()) return Damaged(files.status().message());
  index.files = *std::move(files);
  return index;
}

void DescribeImageFolder(int64_t samples,
                         const std::vector<std::string>& classes,
                         DatasetInfo* info) {
  info->set_samples(samples);
  Field* image = info->mutable_schema()->add_fields();
  image->set_name("image");
  image->set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field* label = info->mutable_schema()->add_fields();
  label->set_name("label");
  label->set_kind(FIELD_KIND_TENSOR);
  label->set_dtype(DTYPE_INT64);
  label->set_num_classes(static_cast<int64_t>(classes.size()));
  for (const std::string& name : classes) label->add_class_names(name);
  SetImagePresets(info);
}

DatasetInfo DescribeFolder(const FolderIndex& index) {
  DatasetInfo info;
  DescribeImageFolder(index.files.size(), index.ClassNames(), &info);
  info.set_format("imagefolder");
  ShardInfo* shard = info.add_shards();
  shard->set_name(ShardInfoName(index.folder));
  shard->set_samples(index.files.size());
  shard->set_bytes(static_cast<int64_t>(index.files.total_bytes()));
  shard->set_content_sum(index.content_sum);
  Hash128 sum;
  const bool content = HashFromHex(index.content_sum, &sum);
  if (!content) HashFromHex(index.listing_sum, &sum);
  std::string fingerprint =
      DatasetFingerprint(info.samples(), info.schema(), sum);
  if (!content) {
    // Never equal to a fingerprint of content.
    const std::string text =
        absl::StrCat("millrace listed folder 1", fingerprint);
    fingerprint = HashToHex(HashBytes(
        {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  }
  info.set_fingerprint(fingerprint);
  return info;
}

}  // namespace millrace::storage
