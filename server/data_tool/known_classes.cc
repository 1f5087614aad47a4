#include "server/data_tool/known_classes.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/data_tool/indexing.h"
#include "server/storage/open_in_order.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

// Whether the records must be read before the number of classes is known. The
// labels of files are those of their folders, or of their table.
bool MayLackClasses(const storage::RecordSource& source) {
  const DatasetInfo& info = source.info();
  if (source.sample_files() != nullptr ||
      !storage::HasIndex(absl::StrCat(info.format(), ":")) ||
      !info.shards(0).content_sum().empty()) {
    return false;
  }
  bool may_lack = false;
  for (const Field& field : info.schema().fields()) {
    if (field.num_classes() > 0) return false;
    may_lack =
        may_lack || (field.kind() == FIELD_KIND_TENSOR &&
                     field.dtype() == DTYPE_INT64 && field.shape().empty());
  }
  return may_lack;
}

}  // namespace

absl::StatusOr<OpenedSource> OpenWithClasses(
    const std::string& uri, const storage::OpenSourceOptions& options,
    bool skip_bad) {
  OpenedSource opened;
  MR_ASSIGN_OR_RETURN(opened.source, storage::OpenInOrder(uri, options));
  if (!MayLackClasses(*opened.source)) return opened;
  const absl::Status indexed =
      IndexWithProgress(uri, options, /*headers_only=*/false).status();
  if (indexed.ok()) {
    opened.source.reset();  // gives back what it has of the budgets
    MR_ASSIGN_OR_RETURN(opened.source, storage::OpenInOrder(uri, options));
    return opened;
  }
  if (absl::IsCancelled(indexed) || (absl::IsDataLoss(indexed) && !skip_bad)) {
    return indexed;
  }
  opened.doubt = absl::StrCat("the number of classes of ", uri,
                              " is not known, because the dataset cannot be "
                              "indexed: ",
                              indexed.message());
  return opened;
}

}  // namespace millrace::data_tool
