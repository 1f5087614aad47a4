// What a storage format whose records are byte ranges of files must be able to
// do: list its objects, find the records in each, and split a record into
// fields. ExtentIndex and ExtentSource do all the rest (threads, progress, the
// index file, reads, memory, errors, fingerprints). Each format is one folder
// beside this one and a line in extent_formats.cc.
//
// A format is of one of two kinds, and overrides the functions of its kind:
// its objects have the records (NewRule(), Scan()), or its object is a table
// that names a file for each sample (names_files(), ReadTable()).
//
// ExtentFormat is stateless and thread-safe. A RecordScanner belongs to one
// thread at a time and to one object.

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_FORMAT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/extents/file_table.h"
#include "server/storage/extents/object_window.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

// One record of an object.
struct IndexedRecord {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // at most 4 GiB - 1
  // Name for errors ("train/0001" of a tar sample); may be empty.
  std::string name;
  // The class index, as the rule splits it, when the scan knows it for free;
  // absent: only the content tells.
  std::optional<int64_t> class_index;
};

class RecordScanner {
 public:
  virtual ~RecordScanner() = default;

  // The next record of the object, in the object's order; nullopt: no more.
  // Reads headers only, not what lies between them. DataLoss: the object is
  // damaged or cut off; the message is a sentence that begins with "byte N".
  // Unimplemented: of a kind that is not supported (compressed); says what to
  // do. No length that the object claims is trusted before it is compared with
  // the object's size.
  virtual absl::StatusOr<std::optional<IndexedRecord>> Next() = 0;
};

// KEY=VALUE pairs after the `?` of a URI: tfrecord:/data/t-*?label_offset=-1
using FormatOptions = std::map<std::string, std::string>;

// The objects of a dataset in the order of the samples.
struct ObjectList {
  std::vector<std::string> names;  // paths
  // What the format read beside the objects (index.json of MDS), for NewRule().
  std::string description;
  // Objects that are compressed as a whole. Offsets of records are those in the
  // raw bytes, and so is what a window shows.
  PackedObjects packed;
};

struct ExtentUri;

class ExtentFormat {
 public:
  virtual ~ExtentFormat() = default;

  virtual absl::string_view scheme() const = 0;  // "tar"

  // The objects of `path`: a file, a folder, a glob or a list. Opens no object
  // except descriptions of the whole set. NotFound: there are none.
  // InvalidArgument: an unknown option, or a bad value; names it. DataLoss: a
  // description is damaged.
  virtual absl::StatusOr<ObjectList> List(
      const std::string& path, const FormatOptions& options) const = 0;

  // The rule of the set. `first` is the first object that has a record.
  // InvalidArgument: an option that does not fit the records; DataLoss,
  // Unimplemented: as RecordScanner::Next().
  virtual absl::StatusOr<std::unique_ptr<FieldRule>> NewRule(
      const ObjectList& objects, const FormatOptions& options,
      ObjectWindow& first) const {
    static_cast<void>(objects);
    static_cast<void>(options);
    static_cast<void>(first);
    return absl::InternalError("the format has no records");
  }

  // The rule that encoded itself so. DataLoss: the bytes are none.
  virtual absl::StatusOr<std::unique_ptr<FieldRule>> RestoreRule(
      absl::string_view encoded) const = 0;

  // What a user may not expect of the fields, as ends of a sentence that begins
  // with the dataset; logged when it is opened or indexed.
  virtual std::vector<std::string> Notes(const ObjectList& objects,
                                         const FormatOptions& options,
                                         const FieldRule& rule) const {
    static_cast<void>(objects);
    static_cast<void>(options);
    static_cast<void>(rule);
    return {};
  }

  // `window` and `rule` must outlive the scanner. Errors of Next() about the
  // object's beginning.
  virtual absl::StatusOr<std::unique_ptr<RecordScanner>> Scan(
      ObjectWindow& window, const FieldRule& rule) const {
    static_cast<void>(window);
    static_cast<void>(rule);
    return absl::InternalError("the format has no records");
  }

  // Whether the first object of List() is a table whose rows name the files of
  // the samples. Its rules are FileRules.
  virtual bool names_files() const { return false; }

  // The table with the content `text` of that object, with the classes that the
  // options of `uri` give. InvalidArgument, a usage error: an option is wrong,
  // or does not fit the table. DataLoss: the table is damaged. Names the table.
  virtual absl::StatusOr<std::unique_ptr<const FileTable>> ReadTable(
      const ExtentUri& uri, absl::string_view text) const {
    static_cast<void>(uri);
    static_cast<void>(text);
    return absl::InternalError("the format has no table");
  }
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_FORMAT_H_
