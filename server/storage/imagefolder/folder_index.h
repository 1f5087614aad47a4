// FolderIndex is an image folder as it was listed, and the bytes that a file of
// the cache folder holds of it (docs/formats.md).
//
// It never looks at the disk. A plain value.
//
//   std::string bytes = EncodeFolderIndex(index);
//   MR_ASSIGN_OR_RETURN(FolderIndex same, DecodeFolderIndex(bytes));

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_INDEX_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/imagefolder/folder_entries.h"
#include "server/storage/imagefolder/folder_files.h"

namespace millrace::storage {

// Version of the file.
inline constexpr uint32_t kFolderIndexVersion = 1;

struct FolderIndex {
  std::string folder;  // absolute path, without links
  // Rules of the listing, and the decoders of operators that took part.
  uint32_t rules = 0;
  std::string decoders;
  int64_t listed_nanos = 0;  // when the listing began
  FolderFiles files;         // at least one
  std::vector<FolderState> folders;
  std::vector<std::string> warnings;  // sentences about what was left out
  // 32 hexadecimal digits each.
  std::string listing_sum;  // FolderFiles::ListingSum()
  std::string content_sum;  // as ShardMetadata's; empty: not known

  // Names of the classes by their labels.
  std::vector<std::string> ClassNames() const;
};

// Bytes of `index` as a file.
std::string EncodeFolderIndex(const FolderIndex& index);

// Checks the first bytes of a file, as DecodeFolderIndex() does.
absl::Status CheckFolderIndexStart(absl::string_view start);

// DataLoss: damaged. Unimplemented: of another version. A part of a sentence
// after the name of the file: "it is ...".
absl::StatusOr<FolderIndex> DecodeFolderIndex(absl::string_view bytes);

// Samples, schema, one shard, presets and fingerprint of the folder. Without a
// content sum the fingerprint is that of names, sizes and times.
DatasetInfo DescribeFolder(const FolderIndex& index);

// The schema of a packed image folder, too.
void DescribeImageFolder(int64_t samples,
                         const std::vector<std::string>& classes,
                         DatasetInfo* info);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_INDEX_H_
