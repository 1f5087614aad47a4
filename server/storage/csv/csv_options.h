// The options of a csv: URI, for example
//
//   csv:/data/labels.csv?path=file&label=class
//
//   path=COLUMN         the paths; the first column when not given
//   label=COLUMN        the labels, or several columns between commas; the only
//                       other column when not given; none when empty
//   boxes=COLUMN        boxes, or four columns between commas: left, top,
//   right,
//                       bottom (box_column.h)
//   header=yes|no       no: the first line is a row, and columns have numbers
//                       from 1 on; default yes
//   separator=NAME      comma, tab or semicolon; default tab for *.tsv,
//                       otherwise comma
//
// The options classes, num_classes and label_offset of all formats
// (extents/extent_uri.h) are about the labels, too; they are not parsed here.
//
// Plain values; pure function.

#ifndef MILLRACE_SERVER_STORAGE_CSV_CSV_OPTIONS_H_
#define MILLRACE_SERVER_STORAGE_CSV_CSV_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

struct CsvOptions {
  std::string path;                 // empty: not given
  std::vector<std::string> labels;  // empty: not given
  bool no_labels = false;
  std::vector<std::string> boxes;  // one or four; empty: not given
  bool header = true;
  char separator = ',';
  // classes=FILE, which is an option of all formats: cells are names of
  // classes, whatever they look like.
  bool names_given = false;
};

// `file` is the name of the table. InvalidArgument: an unknown option, or a bad
// value; names it.
absl::StatusOr<CsvOptions> ParseCsvOptions(absl::string_view file,
                                           const FormatOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_CSV_OPTIONS_H_
