#include "server/storage/extents/extent_index.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "columns are little-endian and mapped");

constexpr absl::string_view kMagic = "MREXTENT";
// Magic, version, length of the head, checksum of all that follows.
constexpr size_t kPrefixBytes = 24;
// The most that one sample can take in a file, so that sizes cannot overflow.
constexpr int64_t kMaxSamples = int64_t{1} << 48;

template <typename T>
void AppendNumber(T number, std::string* out) {
  out->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <typename T>
T NumberAt(absl::string_view bytes, size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

absl::Status Damaged(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("it is damaged: ", why));
}

constexpr uint64_t Padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

// The file up to its columns, without the checksum.
std::string EncodeHead(const ExtentIndexHead& head) {
  const std::string message = head.SerializeAsString();
  std::string out(kMagic);
  AppendNumber(kExtentIndexVersion, &out);
  AppendNumber(static_cast<uint32_t>(message.size()), &out);
  AppendNumber(uint64_t{0}, &out);
  out += message;
  out.resize(Padded(out.size()));
  return out;
}

void SetChecksum(std::string* file) {
  const uint64_t sum =
      XXH3_64bits(file->data() + kPrefixBytes, file->size() - kPrefixBytes);
  std::memcpy(file->data() + kPrefixBytes - sizeof(sum), &sum, sizeof(sum));
}

void AppendColumn(const void* data, size_t bytes, std::string* out) {
  out->append(static_cast<const char*>(data), bytes);
  out->resize(Padded(out->size()));
}

template <typename T>
absl::Span<const uint8_t> AsBytes(absl::Span<const T> numbers) {
  return {reinterpret_cast<const uint8_t*>(numbers.data()),
          numbers.size() * sizeof(T)};
}

absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

bool IsSum(const std::string& text) {
  Hash128 unused;
  return HashFromHex(text, &unused);
}

}  // namespace

void SetIdentity(const ObjectIdentity& identity, ExtentIndexObject* object) {
  object->set_bytes(identity.bytes);
  object->set_modified_nanos(identity.modified_nanos);
  object->set_changed_nanos(identity.changed_nanos);
  object->set_inode(identity.inode);
  object->set_tag(identity.tag);
}

ObjectIdentity IdentityOf(const ExtentIndexObject& object) {
  return {.bytes = object.bytes(),
          .modified_nanos = object.modified_nanos(),
          .changed_nanos = object.changed_nanos(),
          .inode = object.inode(),
          .tag = object.tag()};
}

std::string EncodeExtentIndex(const ExtentIndexHead& head,
                              const ExtentColumns& columns) {
  std::string out = EncodeHead(head);
  size_t all = out.size() + 12 * columns.offsets.size() + 16;
  for (const std::string& values : columns.values) all += values.size() + 8;
  for (const auto& lengths : columns.lengths) all += 4 * lengths.size() + 8;
  out.reserve(all);
  AppendColumn(columns.offsets.data(), 8 * columns.offsets.size(), &out);
  AppendColumn(columns.bytes.data(), 4 * columns.bytes.size(), &out);
  for (const std::string& values : columns.values) {
    AppendColumn(values.data(), values.size(), &out);
  }
  for (const std::vector<uint32_t>& lengths : columns.lengths) {
    AppendColumn(lengths.data(), 4 * lengths.size(), &out);
  }
  SetChecksum(&out);
  return out;
}

Hash128 ExtentListingSum(const ExtentIndexHead& head,
                         absl::Span<const uint64_t> offsets,
                         absl::Span<const uint32_t> bytes) {
  ContentSum sum;
  size_t first = 0;
  for (int i = 0; i < head.objects_size(); ++i) {
    const ExtentIndexObject& object = head.objects(i);
    const std::string name = FileName(object.name());
    const uint64_t size = object.bytes();
    const int64_t modified = object.modified_nanos();
    const auto count = static_cast<size_t>(object.samples());
    const absl::Span<const uint8_t> parts[] = {
        AsBytes(name), AsBytes(absl::MakeConstSpan(&size, 1)),
        AsBytes(absl::MakeConstSpan(&modified, 1)),
        AsBytes(offsets.subspan(first, count)),
        AsBytes(bytes.subspan(first, count))};
    sum.Add(i, parts);
    first += count;
  }
  const absl::Span<const uint8_t> rule[] = {AsBytes(head.rule()),
                                            AsBytes(head.options())};
  sum.Add(head.objects_size(), rule);
  return sum.value();
}

absl::StatusOr<std::unique_ptr<const ExtentIndex>> ExtentIndex::FromBytes(
    std::string bytes) {
  std::unique_ptr<ExtentIndex> index(new ExtentIndex());
  index->owned_ = std::move(bytes);
  MR_RETURN_IF_ERROR(index->Parse(index->owned_));
  return index;
}

absl::StatusOr<std::unique_ptr<const ExtentIndex>> ExtentIndex::Open(
    const std::string& file) {
  std::unique_ptr<ExtentIndex> index(new ExtentIndex());
  MR_ASSIGN_OR_RETURN(index->file_, MappedFile::Open(file));
  const absl::Status parsed = index->Parse(index->bytes_of_file());
  MR_RETURN_IF_ERROR(index->CheckUnchanged());
  MR_RETURN_IF_ERROR(parsed);
  return index;
}

absl::string_view ExtentIndex::bytes_of_file() const {
  const absl::Span<const uint8_t> data = file_->data();
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

absl::Status ExtentIndex::Parse(absl::string_view bytes) {
  if (bytes.size() < kPrefixBytes || bytes.substr(0, 8) != kMagic) {
    return Damaged("it does not begin as an index");
  }
  const auto version = NumberAt<uint32_t>(bytes, 8);
  if (version != kExtentIndexVersion) {
    return absl::UnimplementedError(absl::StrCat("it is of version ", version,
                                                 ", and this program uses ",
                                                 kExtentIndexVersion));
  }
  const size_t head_bytes = NumberAt<uint32_t>(bytes, 12);
  if (head_bytes > std::min<size_t>(bytes.size() - kPrefixBytes, INT_MAX) ||
      Padded(kPrefixBytes + head_bytes) > bytes.size()) {
    return Damaged("it is too short");
  }
  if (!head_.ParseFromArray(bytes.data() + kPrefixBytes,
                            static_cast<int>(head_bytes))) {
    return Damaged("its head cannot be parsed");
  }
  if (!IsSum(head_.listing_sum()) ||
      (!head_.content_sum().empty() && !IsSum(head_.content_sum()))) {
    return Damaged("its sums are wrong");
  }
  for (const ExtentIndexObject& object : head_.objects()) {
    if (object.samples() < 0 || object.samples() > kMaxSamples - samples_ ||
        (!object.content_sum().empty() && !IsSum(object.content_sum()))) {
      return Damaged("its objects are wrong");
    }
    objects_.push_back({.name = object.name(),
                        .identity = IdentityOf(object),
                        .first_sample = samples_,
                        .samples = object.samples()});
    samples_ += object.samples();
  }
  if (samples_ == 0) return Damaged("it has no samples");
  MR_RETURN_IF_ERROR(
      ParseColumns(bytes.substr(Padded(kPrefixBytes + head_bytes))));
  // After the sizes: a file that has grown is not read as a whole.
  if (XXH3_64bits(bytes.data() + kPrefixBytes, bytes.size() - kPrefixBytes) !=
      NumberAt<uint64_t>(bytes, 16)) {
    return Damaged("its checksum differs");
  }
  return CheckExtents();
}

absl::Status ExtentIndex::ParseColumns(absl::string_view columns) {
  const absl::StatusOr<SampleCheck> schema =
      SampleCheck::Create(head_.schema());
  if (!schema.ok()) return Damaged(schema.status().message());
  columns_ = columns;
  const auto count = static_cast<uint64_t>(samples_);
  uint64_t at = 0;
  // The next column, of `each` bytes a sample; null: it is cut off.
  const auto next = [&](uint64_t each) -> const char* {
    const uint64_t bytes = Padded(each * count);
    if (bytes > columns.size() - at) return nullptr;
    const char* const column = columns.data() + at;
    at += bytes;
    return column;
  };
  const char* column = next(sizeof(uint64_t));
  if (column == nullptr) return Damaged("it is too short");
  offsets_ = {reinterpret_cast<const uint64_t*>(column), count};
  column = next(sizeof(uint32_t));
  if (column == nullptr) return Damaged("it is too short");
  bytes_ = {reinterpret_cast<const uint32_t*>(column), count};

  values_.resize(schema->fields());
  lengths_.resize(schema->fields());
  uint64_t value_bytes = 0;
  for (const ExtentIndexValues& entry : head_.values()) {
    value_bytes += entry.bytes();
    if (entry.field() < 0 || entry.field() >= schema->fields() ||
        entry.bytes() == 0 || value_bytes > kMaxValueBytes ||
        values_[entry.field()].bytes != 0 ||
        schema->fixed_bytes(entry.field()) != entry.bytes()) {
      return Damaged("its columns are wrong");
    }
    column = next(entry.bytes());
    if (column == nullptr) return Damaged("it is too short");
    values_[entry.field()] = {reinterpret_cast<const uint8_t*>(column),
                              entry.bytes()};
  }
  for (const int field : head_.lengths()) {
    if (field < 0 || field >= schema->fields() ||
        head_.schema().fields(field).kind() != FIELD_KIND_RAGGED ||
        lengths_[field].data() != nullptr) {
      return Damaged("its columns are wrong");
    }
    column = next(sizeof(uint32_t));
    if (column == nullptr) return Damaged("it is too short");
    lengths_[field] = {reinterpret_cast<const uint32_t*>(column), count};
  }
  if (at != columns.size()) return Damaged("it is too long");
  return absl::OkStatus();
}

absl::Status ExtentIndex::CheckExtents() {
  for (const Object& object : objects_) {
    const int64_t end = object.first_sample + object.samples;
    for (int64_t i = object.first_sample; i < end; ++i) {
      if (offsets_[i] > object.identity.bytes ||
          bytes_[i] > object.identity.bytes - offsets_[i]) {
        return Damaged("an extent is not within its object");
      }
      largest_ = std::max(largest_, bytes_[i]);
    }
  }
  return absl::OkStatus();
}

int ExtentIndex::ObjectOf(int64_t i) const {
  // The last one that begins at or before `i`: objects without samples come
  // before the object that has it.
  const auto after = std::upper_bound(
      objects_.begin(), objects_.end(), i,
      [](int64_t sample, const Object& o) { return sample < o.first_sample; });
  return static_cast<int>(after - objects_.begin()) - 1;
}

std::string ExtentIndex::WithHead(const ExtentIndexHead& head) const {
  std::string out = EncodeHead(head);
  out.append(columns_.data(), columns_.size());
  SetChecksum(&out);
  return out;
}

uint64_t ExtentIndex::memory_bytes() const {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t bytes = owned_.capacity() + head_.SpaceUsedLong();
  for (const Object& object : objects_) {
    bytes += sizeof(Object) + object.name.capacity();
  }
  // An entry of the page table for each page of the map.
  if (file_ != nullptr) bytes += file_->data().size() / page * sizeof(void*);
  return bytes;
}

}  // namespace millrace::storage
