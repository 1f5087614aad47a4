// Opens LMDB environments that other programs wrote as a dataset: Caffe's
// Datum, images or bytes by key, images with texts (docs/formats.md, Foreign
// LMDB). Samples are read where they lie in the mapped files. The fingerprint
// is that of the content if `millrace-data index` has computed it
// (content_record.h), otherwise one of keys and lengths.

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/foreign_lmdb/content_record.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// `rest`: what follows "lmdb:". Null: the dataset is one that `millrace-data
// pack` wrote, or nothing that this reads; the reader of packed datasets says
// what is wrong. InvalidArgument, a usage error: an option is unknown, wrong or
// does not fit. Otherwise errors of Environment::Open() and
// ForeignIndex::Build().
absl::StatusOr<std::unique_ptr<RecordSource>> OpenForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options);

// The same for a program that computes the content hash. `*opened`: what the
// hash belongs to, without the hash.
struct ForeignLmdb {
  ExtentUri uri;
  ContentRecord content;
};
absl::StatusOr<std::unique_ptr<RecordSource>> OpenForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options,
    ForeignLmdb* opened);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_SOURCE_H_
