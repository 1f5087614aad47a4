#include "server/storage/extents/extent_index.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "columns are little-endian and mapped");

// A larger index is mapped even if that takes one descriptor more than the
// process should hold: it would take too much memory.
constexpr int64_t kMaxReadBytes = 4 << 20;

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
  AppendNumber(head.files() ? kFileIndexVersion : kExtentIndexVersion, &out);
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

template <typename T>
absl::Span<const uint8_t> AsBytes(const std::vector<T>& numbers) {
  return AsBytes(absl::MakeConstSpan(numbers));
}

// The sum over the columns that two copies of the files have alike.
Hash128 SumOfFiles(const ExtentIndexHead& head,
                   absl::Span<const absl::Span<const uint8_t>> columns) {
  ContentSum sum;
  sum.Add(0, columns);
  const absl::Span<const uint8_t> rule[] = {AsBytes(head.rule())};
  sum.Add(1, rule);
  return sum.value();
}

// Whether `ends` rise up to `bytes`.
bool AreEnds(absl::Span<const uint64_t> ends, uint64_t bytes) {
  uint64_t before = 0;
  for (const uint64_t end : ends) {
    if (end < before) return false;
    before = end;
  }
  return before == bytes;
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
  std::vector<absl::Span<const uint8_t>> parts;
  if (head.files()) {
    parts = {AsBytes(columns.modified_nanos), AsBytes(columns.changed_nanos),
             AsBytes(columns.inodes),         AsBytes(columns.bytes),
             AsBytes(columns.name_ends),      AsBytes(columns.names)};
  } else {
    parts = {AsBytes(columns.offsets), AsBytes(columns.bytes)};
  }
  for (size_t i = 0; i < columns.values.size(); ++i) {
    if (head.values(static_cast<int>(i)).bytes() == 0) {
      parts.push_back(AsBytes(columns.value_ends[i]));
    }
    parts.push_back(AsBytes(columns.values[i]));
  }
  for (const std::vector<uint32_t>& lengths : columns.lengths) {
    parts.push_back(AsBytes(lengths));
  }
  size_t all = out.size();
  for (const absl::Span<const uint8_t> part : parts) all += Padded(part.size());
  out.reserve(all);
  for (const absl::Span<const uint8_t> part : parts) {
    AppendColumn(part.data(), part.size(), &out);
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

Hash128 FileListingSum(const ExtentIndexHead& head,
                       const ExtentColumns& columns) {
  std::vector<absl::Span<const uint8_t>> parts = {
      AsBytes(columns.bytes), AsBytes(columns.modified_nanos),
      AsBytes(columns.name_ends), AsBytes(columns.names)};
  for (size_t i = 0; i < columns.values.size(); ++i) {
    parts.push_back(AsBytes(columns.value_ends[i]));
    parts.push_back(AsBytes(columns.values[i]));
  }
  return SumOfFiles(head, parts);
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
  index->path_ = file;
  index->hold_ =
      std::make_unique<const OpenFiles::Hold>(OpenFiles::OfProcess());
  if (struct stat info; !index->hold_->granted() &&
                        stat(file.c_str(), &info) == 0 &&
                        info.st_size <= kMaxReadBytes) {
    MR_RETURN_IF_ERROR(ReadRegularFile(file, &index->owned_));
    MR_RETURN_IF_ERROR(index->Parse(index->owned_));
    return index;
  }
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
  if (version != kExtentIndexVersion && version != kFileIndexVersion) {
    return absl::UnimplementedError(
        absl::StrCat("it is of version ", version, ", and this program uses ",
                     kExtentIndexVersion, " and ", kFileIndexVersion));
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
  if (has_files() != (version == kFileIndexVersion)) {
    return Damaged("its version is wrong");
  }
  if (!IsSum(head_.listing_sum()) ||
      (!head_.content_sum().empty() && !IsSum(head_.content_sum()))) {
    return Damaged("its sums are wrong");
  }
  first_samples_.reserve(static_cast<size_t>(head_.objects_size()));
  for (const ExtentIndexObject& object : head_.objects()) {
    if (object.samples() < 0 || object.samples() > kMaxSamples - samples_ ||
        (!object.content_sum().empty() && !IsSum(object.content_sum()))) {
      return Damaged("its objects are wrong");
    }
    first_samples_.push_back(samples_);
    samples_ += object.samples();
  }
  if (samples_ == 0) return Damaged("it has no samples");
  if (has_files() && head_.objects(0).samples() != samples_) {
    return Damaged("its objects are wrong");
  }
  MR_RETURN_IF_ERROR(
      ParseColumns(bytes.substr(Padded(kPrefixBytes + head_bytes))));
  // After the sizes: a file that has grown is not read as a whole.
  checksum_ = NumberAt<uint64_t>(bytes, 16);
  if (XXH3_64bits(bytes.data() + kPrefixBytes, bytes.size() - kPrefixBytes) !=
      checksum_) {
    return Damaged("its checksum differs");
  }
  return has_files() ? CheckFileNames() : CheckExtents();
}

// Takes columns one after the other.
class ExtentIndex::ColumnReader {
 public:
  ColumnReader(absl::string_view columns, int64_t samples)
      : columns_(columns), samples_(static_cast<uint64_t>(samples)) {}

  // A column of `bytes` bytes; null: it is cut off.
  const char* Take(uint64_t bytes) {
    if (bytes > columns_.size() || Padded(bytes) > columns_.size()) {
      return nullptr;
    }
    const char* const column = columns_.data();
    columns_.remove_prefix(Padded(bytes));
    return column;
  }
  // A column of `each` bytes a sample.
  const char* TakeOfEach(uint64_t each) {
    uint64_t bytes;
    return __builtin_mul_overflow(each, samples_, &bytes) ? nullptr
                                                          : Take(bytes);
  }
  template <typename T>
  bool Take(absl::Span<const T>* numbers) {
    const char* const column = TakeOfEach(sizeof(T));
    if (column == nullptr) return false;
    *numbers = {reinterpret_cast<const T*>(column), samples_};
    return true;
  }
  bool done() const { return columns_.empty(); }

 private:
  absl::string_view columns_;
  const uint64_t samples_;
};

absl::Status ExtentIndex::ParseFiles(ColumnReader* reader) {
  if (!reader->Take(&modified_nanos_) || !reader->Take(&changed_nanos_) ||
      !reader->Take(&inodes_) || !reader->Take(&bytes_) ||
      !reader->Take(&name_ends_)) {
    return Damaged("it is too short");
  }
  const char* const names = reader->Take(name_ends_.back());
  if (names == nullptr) return Damaged("it is too short");
  names_ = {names, name_ends_.back()};
  return absl::OkStatus();
}

absl::Status ExtentIndex::ParseColumns(absl::string_view columns) {
  const absl::StatusOr<SampleCheck> schema =
      SampleCheck::Create(head_.schema());
  if (!schema.ok()) return Damaged(schema.status().message());
  columns_ = columns;
  ColumnReader reader(columns, samples_);
  if (has_files()) {
    MR_RETURN_IF_ERROR(ParseFiles(&reader));
  } else if (!reader.Take(&offsets_) || !reader.Take(&bytes_)) {
    return Damaged("it is too short");
  }
  values_.resize(schema->fields());
  lengths_.resize(schema->fields());
  uint64_t value_bytes = 0;
  for (const ExtentIndexValues& entry : head_.values()) {
    value_bytes += entry.bytes();
    if (entry.field() < 0 || entry.field() >= schema->fields() ||
        values_[entry.field()].data != nullptr ||
        (has_files() ? entry.field() == 0
                     : entry.bytes() == 0 || value_bytes > kMaxValueBytes) ||
        schema->fixed_bytes(entry.field()) !=
            (entry.bytes() == 0 ? -1 : int64_t{entry.bytes()})) {
      return Damaged("its columns are wrong");
    }
    Values& values = values_[entry.field()];
    values.bytes = entry.bytes();
    const char* column = nullptr;
    if (entry.bytes() > 0) {
      column = reader.TakeOfEach(entry.bytes());
    } else if (absl::Span<const uint64_t> ends; reader.Take(&ends)) {
      values.bytes = ends.back();
      values.ends = ends.data();
      column = reader.Take(values.bytes);
    }
    if (column == nullptr) return Damaged("it is too short");
    values.data = reinterpret_cast<const uint8_t*>(column);
  }
  for (const int field : head_.lengths()) {
    if (field < 0 || field >= schema->fields() ||
        head_.schema().fields(field).kind() != FIELD_KIND_RAGGED ||
        lengths_[field].data() != nullptr) {
      return Damaged("its columns are wrong");
    }
    if (!reader.Take(&lengths_[field])) return Damaged("it is too short");
  }
  // Reads of files have nothing else to take these fields from.
  for (int field = 1; has_files() && field < schema->fields(); ++field) {
    if (!has_values(field)) return Damaged("its columns are wrong");
  }
  if (!reader.done()) return Damaged("it is too long");
  return absl::OkStatus();
}

absl::Status ExtentIndex::CheckExtents() {
  int64_t i = 0;
  for (const ExtentIndexObject& object : head_.objects()) {
    for (const int64_t end = i + object.samples(); i < end; ++i) {
      if (offsets_[i] > object.bytes() ||
          bytes_[i] > object.bytes() - offsets_[i]) {
        return Damaged("an extent is not within its object");
      }
      largest_ = std::max(largest_, bytes_[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status ExtentIndex::CheckFileNames() {
  const auto count = static_cast<size_t>(samples_);
  if (!AreEnds(name_ends_, names_.size())) {
    return Damaged("its names are wrong");
  }
  for (const Values& values : values_) {
    if (values.ends != nullptr &&
        !AreEnds({values.ends, count}, values.bytes)) {
      return Damaged("its values are wrong");
    }
  }
  for (const uint32_t bytes : bytes_) largest_ = std::max(largest_, bytes);
  return absl::OkStatus();
}

absl::string_view ExtentIndex::file_name(int64_t i) const {
  const uint64_t begin = i == 0 ? 0 : name_ends_[i - 1];
  const uint64_t end = name_ends_[i];
  // Otherwise the mapped file has changed.
  if (begin > end || end > names_.size()) return "";
  return names_.substr(begin, end - begin);
}

std::string ExtentIndex::FilePath(int64_t i) const {
  const absl::string_view name = file_name(i);
  if (absl::StartsWith(name, "/")) return std::string(name);
  return JoinPath(FolderOf(head_.objects(0).name()), name);
}

ObjectIdentity ExtentIndex::file_identity(int64_t i) const {
  return {.bytes = bytes_[i],
          .modified_nanos = modified_nanos_[i],
          .changed_nanos = changed_nanos_[i],
          .inode = inodes_[i],
          .tag = ""};
}

uint64_t ExtentIndex::TotalFileBytes() const {
  uint64_t total = 0;
  for (const uint32_t bytes : bytes_) total += bytes;
  return total;
}

absl::Span<const uint8_t> ExtentIndex::value(int field, int64_t i) const {
  const Values& values = values_[field];
  if (values.data == nullptr) return {};
  if (values.ends == nullptr) {
    return {values.data + static_cast<size_t>(i) * values.bytes, values.bytes};
  }
  const uint64_t begin = i == 0 ? 0 : values.ends[i - 1];
  const uint64_t end = values.ends[i];
  // Otherwise the mapped file has changed.
  if (begin > end || end > values.bytes) return {};
  return {values.data + begin, end - begin};
}

Hash128 ExtentIndex::ListingSum() const {
  if (!has_files()) return ExtentListingSum(head_, offsets_, bytes_);
  std::vector<absl::Span<const uint8_t>> parts = {
      AsBytes(bytes_), AsBytes(modified_nanos_), AsBytes(name_ends_),
      AsBytes(names_)};
  const auto count = static_cast<size_t>(samples_);
  for (const ExtentIndexValues& entry : head_.values()) {
    const Values& values = values_[entry.field()];
    if (values.ends == nullptr) {
      parts.push_back({});
      parts.push_back({values.data, values.bytes * count});
    } else {
      parts.push_back(AsBytes(absl::MakeConstSpan(values.ends, count)));
      parts.push_back({values.data, values.bytes});
    }
  }
  return SumOfFiles(head_, parts);
}

int ExtentIndex::ObjectOf(int64_t i) const {
  // The last one that begins at or before `i`: objects without samples come
  // before the object that has it.
  const auto after =
      std::upper_bound(first_samples_.begin(), first_samples_.end(), i);
  return static_cast<int>(after - first_samples_.begin()) - 1;
}

std::string ExtentIndex::WithHead(const ExtentIndexHead& head) const {
  std::string out = EncodeHead(head);
  out.append(columns_.data(), columns_.size());
  SetChecksum(&out);
  return out;
}

uint64_t ExtentIndex::memory_bytes() const {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t bytes = owned_.capacity() + head_.SpaceUsedLong() +
                   first_samples_.capacity() * sizeof(int64_t);
  // An entry of the page table for each page of the map.
  if (file_ != nullptr) bytes += file_->data().size() / page * sizeof(void*);
  return bytes;
}

}  // namespace millrace::storage
