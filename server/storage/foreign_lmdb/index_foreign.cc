#include "server/storage/foreign_lmdb/index_foreign.h"

#include <memory>

#include "common/status_macros.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_record.h"
#include "server/storage/content_scan.h"
#include "server/storage/foreign_lmdb/content_record.h"
#include "server/storage/foreign_lmdb/foreign_source.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

absl::StatusOr<std::optional<IndexedForeign>> IndexForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options, uint32_t threads,
    const IndexProgress& progress) {
  ForeignLmdb opened;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                      OpenForeignLmdb(rest, options, &opened));
  if (source == nullptr) return std::nullopt;
  // Before the samples are read, which takes long.
  MR_RETURN_IF_ERROR(MakeCacheFolder(options.cache_dir).status());
  // It counts samples alone: the bytes stay 0.
  IndexProgress samples_alone;
  if (progress) {
    samples_alone = [&progress](int64_t done, int64_t all, int64_t) {
      return progress(done, all, 0);
    };
  }
  MR_ASSIGN_OR_RETURN(opened.content.sums,
                      ScanContent(*source, threads, samples_alone));
  IndexedForeign indexed;
  MR_ASSIGN_OR_RETURN(
      indexed.file,
      SaveContentRecord(opened.uri, opened.content, options.cache_dir));
  indexed.info = source->info();
  SetContentSums(opened.content.sums, &indexed.info);
  return indexed;
}

}  // namespace millrace::storage
