#include "server/storage/imagefolder/folder_files.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/utf8.h"

namespace millrace::storage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "columns are stored as they lie in memory");

template <typename T>
void AppendColumn(const std::vector<T>& column, std::string* out) {
  out->append(reinterpret_cast<const char*>(column.data()),
              column.size() * sizeof(T));
}

// Moves a column of `size` entries from the start of `*bytes` to `column`.
template <typename T>
void TakeColumn(uint64_t size, absl::string_view* bytes,
                std::vector<T>* column) {
  column->resize(size);
  std::memcpy(column->data(), bytes->data(), size * sizeof(T));
  bytes->remove_prefix(size * sizeof(T));
}

// Whether the path stays below its folder and is one that a listing can give:
// hidden names, and so "." and "..", are never listed.
bool IsListedPath(absl::string_view path) {
  return !path.empty() && path[0] != '/' && path[0] != '.' &&
         path.back() != '/' && !absl::StrContains(path, "/.") &&
         !absl::StrContains(path, "//") &&
         path.find('\0') == absl::string_view::npos;
}

absl::Span<const uint8_t> AsBytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

}  // namespace

void ListedFiles::Add(absl::string_view name, uint64_t size, int64_t modified) {
  names.append(name.data(), name.size());
  name_ends.push_back(names.size());
  bytes.push_back(size);
  modified_nanos.push_back(modified);
}

absl::string_view ListedFiles::name(size_t i) const {
  const uint64_t begin = i == 0 ? 0 : name_ends[i - 1];
  return absl::string_view(names).substr(begin, name_ends[i] - begin);
}

void FolderFiles::Reserve(uint64_t files, uint64_t name_bytes) {
  modified_nanos_.reserve(files);
  bytes_.reserve(files);
  name_ends_.reserve(files);
  names_.reserve(name_bytes);
}

absl::Status FolderFiles::CheckNameBytes(uint64_t name_bytes) {
  if (name_bytes <= kMaxNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the names of the files have more than 4 GiB, the maximum of a list: "
      "divide the folder into several");
}

absl::Status FolderFiles::AddClass(const std::string& name, int64_t label,
                                   const ListedFiles& files) {
  MR_RETURN_IF_ERROR(CheckNameBytes(names_.size() + files.names.size()));
  std::vector<uint32_t> order(files.bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&files](uint32_t a, uint32_t b) {
    return files.name(a) < files.name(b);
  });
  classes_.push_back(
      {.name = name, .label = label, .first = size(), .count = files.size()});
  for (const uint32_t i : order) {
    const absl::string_view file = files.name(i);
    names_.append(file.data(), file.size());
    name_ends_.push_back(static_cast<uint32_t>(names_.size()));
    bytes_.push_back(static_cast<uint32_t>(files.bytes[i]));
    modified_nanos_.push_back(files.modified_nanos[i]);
  }
  return absl::OkStatus();
}

FolderFiles FolderFiles::Without(const std::vector<bool>& flags) const {
  FolderFiles kept;
  for (const ClassRange& range : classes_) {
    const int64_t first = kept.size();
    for (int64_t i = range.first; i < range.first + range.count; ++i) {
      if (flags[i]) continue;
      kept.names_.append(NameInClass(i).data(), NameInClass(i).size());
      kept.name_ends_.push_back(static_cast<uint32_t>(kept.names_.size()));
      kept.bytes_.push_back(bytes_[i]);
      kept.modified_nanos_.push_back(modified_nanos_[i]);
    }
    if (kept.size() == first) continue;
    kept.classes_.push_back({.name = range.name,
                             .label = range.label,
                             .first = first,
                             .count = kept.size() - first});
  }
  return kept;
}

uint64_t FolderFiles::total_bytes() const {
  return std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0});
}

int64_t FolderFiles::LargestFile() const {
  return std::max_element(bytes_.begin(), bytes_.end()) - bytes_.begin();
}

const FolderFiles::ClassRange& FolderFiles::ClassOf(int64_t i) const {
  const auto after = std::upper_bound(
      classes_.begin(), classes_.end(), i,
      [](int64_t at, const ClassRange& range) { return at < range.first; });
  return *(after - 1);
}

absl::string_view FolderFiles::NameInClass(int64_t i) const {
  const uint32_t begin = i == 0 ? 0 : name_ends_[i - 1];
  return absl::string_view(names_).substr(begin, name_ends_[i] - begin);
}

void FolderFiles::AppendPath(int64_t i, std::string* path) const {
  absl::StrAppend(path, ClassOf(i).name, "/", NameInClass(i));
}

std::string FolderFiles::PathOf(int64_t i) const {
  std::string path;
  AppendPath(i, &path);
  return path;
}

Hash128 FolderFiles::ListingSum() const {
  ContentSum sum;
  std::string path;
  for (int64_t i = 0; i < size(); ++i) {
    path.clear();
    AppendPath(i, &path);
    const uint64_t bytes = bytes_[i];
    const absl::Span<const uint8_t> fields[] = {
        AsBytes(path.data(), path.size()), AsBytes(&bytes, sizeof(bytes)),
        AsBytes(&modified_nanos_[i], sizeof(modified_nanos_[i]))};
    sum.Add(i, fields);
  }
  return sum.value();
}

void FolderFiles::AppendColumns(std::string* out) const {
  AppendColumn(modified_nanos_, out);
  AppendColumn(bytes_, out);
  AppendColumn(name_ends_, out);
  out->append(names_);
}

absl::StatusOr<FolderFiles> FolderFiles::FromColumns(
    std::vector<ClassRange> classes, absl::string_view columns,
    uint64_t files) {
  if (files > columns.size() / kBytesEach) {
    return absl::DataLossError("it is shorter than its list of files");
  }
  FolderFiles list;
  list.classes_ = std::move(classes);
  TakeColumn(files, &columns, &list.modified_nanos_);
  TakeColumn(files, &columns, &list.bytes_);
  TakeColumn(files, &columns, &list.name_ends_);
  list.names_ = std::string(columns);
  MR_RETURN_IF_ERROR(list.Check());
  return list;
}

absl::Status FolderFiles::Check() const {
  uint32_t end = 0;
  for (const uint32_t next : name_ends_) {
    if (next <= end || next > names_.size()) {
      return absl::DataLossError("its names are damaged");
    }
    end = next;
  }
  if (end != names_.size()) {
    return absl::DataLossError("it is longer than its list of files");
  }
  int64_t first = 0;
  absl::string_view before;
  std::vector<bool> labels(classes_.size());
  for (const ClassRange& range : classes_) {
    if (range.first != first || range.count <= 0 ||
        range.count > size() - first || range.label < 0 ||
        static_cast<uint64_t>(range.label) >= classes_.size() ||
        !IsListedPath(range.name) || absl::StrContains(range.name, "/") ||
        (first > 0 &&
         absl::StrCat(before, "/") >= absl::StrCat(range.name, "/"))) {
      return absl::DataLossError("its classes are damaged");
    }
    before = range.name;
    if (labels[range.label]) {
      return absl::DataLossError("two of its classes have the same label");
    }
    labels[range.label] = true;
    for (int64_t i = first; i < first + range.count; ++i) {
      if (!IsListedPath(NameInClass(i)) || !IsUtf8(NameInClass(i)) ||
          (i > first && NameInClass(i - 1) >= NameInClass(i))) {
        return absl::DataLossError("its names are damaged");
      }
    }
    first += range.count;
  }
  if (first != size()) return absl::DataLossError("its classes are damaged");
  return absl::OkStatus();
}

}  // namespace millrace::storage
