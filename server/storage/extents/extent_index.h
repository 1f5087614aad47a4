// ExtentIndex is the index of a dataset whose records are byte ranges of files:
// for each sample its extent, small values that were read ahead, and the
// objects with their identities (docs/formats.md defines the file byte by
// byte).
//
// Where each sample is a file of its own (csv:), it has columns of names and
// identities instead, and the values of all fields but the file: a million
// files are 36 bytes and a name each, in pages of the page cache.
//
// It never looks at the objects and files; extent_cache.h does.
//
// Immutable and thread-safe. Owns its bytes, in memory or as a map of a file.
//
//   MR_ASSIGN_OR_RETURN(auto index, ExtentIndex::Open("tar-00.mrindex"));
//   const Extent extent = index->extent(17);
//   Read(index->object(index->ObjectOf(17)), extent);

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_INDEX_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/extent_index.pb.h"
#include "proto/names.h"
#include "server/storage/content_hash.h"
#include "server/storage/mapped_file.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/objects/open_files.h"

namespace millrace::storage {

// Version of an index of records, and of one of files.
inline constexpr uint32_t kExtentIndexVersion = 1;
inline constexpr uint32_t kFileIndexVersion = 2;
// Max bytes of a sample's values in an index of records.
inline constexpr uint64_t kMaxValueBytes = 64;

struct Extent {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

// The columns of an index that is being made.
struct ExtentColumns {
  std::vector<uint64_t> offsets;    // of records
  std::vector<uint32_t> bytes;      // of records, or of files
  std::vector<std::string> values;  // of head.values(): n values each
  std::vector<std::vector<uint32_t>> lengths;  // of head.lengths()
  // Of files.
  std::vector<int64_t> modified_nanos;
  std::vector<int64_t> changed_nanos;
  std::vector<uint64_t> inodes;
  std::vector<uint64_t> name_ends;  // in `names`
  std::string names;
  // Of head.values() whose sizes differ: their ends; otherwise empty.
  std::vector<std::vector<uint64_t>> value_ends;
};

// Bytes of an index as a file. The head's listing_sum must be set.
std::string EncodeExtentIndex(const ExtentIndexHead& head,
                              const ExtentColumns& columns);

// The sum of the listing that docs/formats.md defines.
Hash128 ExtentListingSum(const ExtentIndexHead& head,
                         absl::Span<const uint64_t> offsets,
                         absl::Span<const uint32_t> bytes);

// The same of an index of files.
Hash128 FileListingSum(const ExtentIndexHead& head,
                       const ExtentColumns& columns);

// `identity` as the index stores it, and back.
void SetIdentity(const ObjectIdentity& identity, ExtentIndexObject* object);
ObjectIdentity IdentityOf(const ExtentIndexObject& object);

class ExtentIndex {
 public:
  // DataLoss: damaged. Unimplemented: of another version. A part of a sentence
  // after the name of the file: "it is ...".
  static absl::StatusOr<std::unique_ptr<const ExtentIndex>> FromBytes(
      std::string bytes);
  // The same for a file, which is mapped. A small one is read into memory when
  // the process holds as many descriptors of indexes as it may
  // (OpenFiles::Hold). Otherwise errors as MappedFile's, which name the file.
  static absl::StatusOr<std::unique_ptr<const ExtentIndex>> Open(
      const std::string& file);

  const ExtentIndexHead& head() const { return head_; }
  int64_t samples() const { return samples_; }

  // A view: the head holds the name, once.
  struct Object {
    const std::string& name;
    ObjectIdentity identity;
    int64_t first_sample = 0;
    int64_t samples = 0;
  };
  int objects() const { return head_.objects_size(); }
  Object object(int i) const {
    const ExtentIndexObject& object = head_.objects(i);
    return {object.name(), IdentityOf(object), first_samples_[i],
            object.samples()};
  }
  int64_t first_sample(int object) const { return first_samples_[object]; }
  // The object of sample `i`, which exists.
  int ObjectOf(int64_t i) const;

  // Of sample `i`, which exists.
  Extent extent(int64_t i) const {
    return {has_files() ? 0 : offsets_[i], bytes_[i]};
  }
  uint32_t largest_extent() const { return largest_; }

  // Whether each sample is a file of its own.
  bool has_files() const { return head_.files(); }
  // Of such an index: the file of sample `i` as the table names it; lives as
  // long as the index. Its path. Its identity.
  absl::string_view file_name(int64_t i) const;
  std::string FilePath(int64_t i) const;
  ObjectIdentity file_identity(int64_t i) const;
  uint64_t TotalFileBytes() const;

  // Whether the index has the values of the field.
  bool has_values(int field) const { return values_[field].data != nullptr; }
  // The value of field `field` of sample `i`; empty: the index has no values of
  // that field.
  absl::Span<const uint8_t> value(int field, int64_t i) const;
  // Lengths of the values of a RAGGED field in bytes; empty: not known.
  absl::Span<const uint32_t> lengths(int field) const {
    return lengths_[field];
  }

  // Bytes of the same columns with another head.
  std::string WithHead(const ExtentIndexHead& head) const;
  Hash128 ListingSum() const;
  // Tells files of indexes from each other; of the bytes of the file.
  uint64_t checksum() const { return checksum_; }

  // Memory that the process holds as long as the index lives: an estimate. Of a
  // mapped file without its pages, which belong to the page cache.
  uint64_t memory_bytes() const;

  // Path of the file; empty: it is not of a file.
  const std::string& file() const { return path_; }

  // Unavailable: the mapped file has changed, so what was read of it may be
  // wrong. One fstat().
  absl::Status CheckUnchanged() const {
    return file_ == nullptr ? absl::OkStatus() : file_->CheckUnchanged();
  }

 private:
  struct Values {
    const uint8_t* data = nullptr;
    size_t bytes = 0;  // of one value; with `ends` of all
    // Of the values, if their sizes differ.
    const uint64_t* ends = nullptr;
  };
  class ColumnReader;

  ExtentIndex() = default;
  absl::Status Parse(absl::string_view bytes);
  absl::Status ParseColumns(absl::string_view columns);
  absl::Status ParseFiles(ColumnReader* reader);
  absl::Status CheckExtents();
  absl::Status CheckFileNames();
  absl::string_view bytes_of_file() const;

  // Constant once parsed.
  std::string path_;
  std::unique_ptr<const OpenFiles::Hold> hold_;  // of file_'s descriptor
  // One of the two holds the bytes.
  std::string owned_;
  std::unique_ptr<const MappedFile> file_;
  ExtentIndexHead head_;
  std::vector<int64_t> first_samples_;  // of each object
  int64_t samples_ = 0;
  uint32_t largest_ = 0;
  uint64_t checksum_ = 0;
  absl::string_view columns_;
  absl::Span<const uint64_t> offsets_;
  absl::Span<const uint32_t> bytes_;
  std::vector<Values> values_;  // of each field
  std::vector<absl::Span<const uint32_t>> lengths_;
  // Of files.
  absl::Span<const int64_t> modified_nanos_;
  absl::Span<const int64_t> changed_nanos_;
  absl::Span<const uint64_t> inodes_;
  absl::Span<const uint64_t> name_ends_;
  absl::string_view names_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_INDEX_H_
