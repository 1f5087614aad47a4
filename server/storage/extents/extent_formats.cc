#include "server/storage/extents/extent_formats.h"

#include "server/storage/csv/csv_format.h"
#include "server/storage/litdata/litdata_format.h"
#include "server/storage/mds/mds_format.h"
#include "server/storage/tar/tar_format.h"
#include "server/storage/tfrecord/tfrecord_format.h"

namespace millrace::storage {

absl::Span<const ExtentFormat* const> ExtentFormats() {
  static const ExtentFormat* const formats[] = {
      &CsvFormat(),
      &LitdataFormat(),
      &MdsFormat(),
      &TarFormat(),
      &TfrecordFormat(),
  };
  return formats;
}

const ExtentFormat* FindExtentFormat(absl::string_view scheme) {
  for (const ExtentFormat* format : ExtentFormats()) {
    if (format->scheme() == scheme) return format;
  }
  return nullptr;
}

}  // namespace millrace::storage
