// FolderFiles is the list of an image folder's files in the order of the
// samples (bytewise by path): 16 bytes a file and its name, so that millions
// fit into memory.
//
// It never looks at the disk. Immutable once built: any threads may read it.
//
//   FolderFiles files;
//   MR_RETURN_IF_ERROR(files.AddClass("cat", 0, listed));  // in order
//   files.AppendPath(17, &path);                           // "cat/b/1.jpg"

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_FILES_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/content_hash.h"

namespace millrace::storage {

// Files of one class folder, in the order in which they were found.
struct ListedFiles {
  std::string names;  // below the class folder, one behind another
  std::vector<uint64_t> name_ends;  // in `names`
  std::vector<uint64_t> bytes;
  std::vector<int64_t> modified_nanos;  // time of modification, since 1970

  void Add(absl::string_view name, uint64_t size, int64_t modified);
  int64_t size() const { return static_cast<int64_t>(bytes.size()); }
  absl::string_view name(size_t i) const;
};

class FolderFiles {
 public:
  // Max bytes of a file, and of all names together: the list has 32 bits for
  // each.
  static constexpr uint64_t kMaxFileBytes = UINT32_MAX;
  static constexpr uint64_t kMaxNameBytes = UINT32_MAX;

  // InvalidArgument: more than kMaxNameBytes.
  static absl::Status CheckNameBytes(uint64_t name_bytes);

  // Samples of one class. Their paths begin with "name/".
  struct ClassRange {
    std::string name;
    int64_t label = 0;
    int64_t first = 0;  // of `count` samples
    int64_t count = 0;
  };

  // Takes the memory for a list of this size.
  void Reserve(uint64_t files, uint64_t name_bytes);

  // Appends the files of a class folder. Classes come in the bytewise order of
  // "name/". InvalidArgument: too many names for one list.
  absl::Status AddClass(const std::string& name, int64_t label,
                        const ListedFiles& files);

  // The list without the files that are flagged, one flag for each.
  FolderFiles Without(const std::vector<bool>& flags) const;

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  uint64_t total_bytes() const;  // of all files
  // The first of the largest files; 0 if the list is empty.
  int64_t LargestFile() const;
  const std::vector<ClassRange>& classes() const { return classes_; }

  int64_t LabelOf(int64_t i) const { return ClassOf(i).label; }
  uint32_t bytes(int64_t i) const { return bytes_[i]; }
  int64_t modified_nanos(int64_t i) const { return modified_nanos_[i]; }
  // "b/1.jpg" of "cat/b/1.jpg"; lives as long as the list.
  absl::string_view NameInClass(int64_t i) const;
  // Appends the path of file `i` within the folder.
  void AppendPath(int64_t i, std::string* path) const;
  std::string PathOf(int64_t i) const;

  // Memory of the list: of one with `files` names of `name_bytes` bytes.
  static uint64_t MemoryBytes(uint64_t files, uint64_t name_bytes) {
    return files * kBytesEach + name_bytes;
  }
  uint64_t memory_bytes() const {
    return MemoryBytes(bytes_.size(), names_.size());
  }

  // Hash of paths, sizes and times: the sum over samples of docs/formats.md.
  Hash128 ListingSum() const;

  // The columns as bytes, in the layout of docs/formats.md.
  void AppendColumns(std::string* out) const;
  // The inverse. DataLoss: the names are not those of a list, or `classes` do
  // not tile the files; a part of a sentence.
  static absl::StatusOr<FolderFiles> FromColumns(
      std::vector<ClassRange> classes, absl::string_view columns,
      uint64_t files);

 private:
  static constexpr uint64_t kBytesEach = 16;

  const ClassRange& ClassOf(int64_t i) const;
  absl::Status Check() const;

  std::vector<ClassRange> classes_;
  std::vector<int64_t> modified_nanos_;
  std::vector<uint32_t> bytes_;
  std::vector<uint32_t> name_ends_;  // in names_
  std::string names_;                // below the class folders
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_FILES_H_
