// The content hash of a foreign LMDB dataset in the cache folder, as
// `millrace-data index` has computed it, for servers that open the dataset
// later: they visit keys alone.
//
// A record belongs to one version of the files (sizes, times, inodes) and of
// what the keys say (the fingerprint without the content). A record of another
// version is not used.
//
// Thread-safe; processes may share a cache folder. docs/formats.md has the
// format.
//
//   ContentRecord record{.keys = fingerprint, .files = identities};
//   record.sums = ...;
//   MR_ASSIGN_OR_RETURN(std::string file, SaveContentRecord(uri, record, dir));

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_CONTENT_RECORD_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_CONTENT_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/content_hash.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/objects/object_reader.h"

namespace millrace::storage {

struct ContentRecord {
  std::string keys;                   // the fingerprint without the content
  std::vector<ObjectIdentity> files;  // the environments
  // Of each environment: the sum of the hashes of its samples.
  std::vector<Hash128> sums;
};

std::string EncodeContentRecord(const ContentRecord& record);

// DataLoss: the bytes are none.
absl::StatusOr<ContentRecord> DecodeContentRecord(absl::string_view bytes);

// Fills `sums` of `record` from the cache folder. False: there is no record of
// the dataset in this version. The log says why a record is not used.
bool FindContentSums(const ExtentUri& uri, const std::string& cache_dir,
                     ContentRecord* record);

// The file. Errors as MakeCacheFolder() and WriteFileAtomically().
absl::StatusOr<std::string> SaveContentRecord(const ExtentUri& uri,
                                              const ContentRecord& record,
                                              const std::string& cache_dir);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_CONTENT_RECORD_H_
