// ExtentUri is what follows the scheme of a dataset whose records are byte
// ranges of files: a path and options, "/data/t-*.tar?label_offset=-1".
//
// It opens no object; of the options it reads the file of class names.
//
// Pure functions, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(ExtentUri uri,
//                       ExtentUri::Parse("tar", "/data/*.tar?classes=/n"));
//   MR_RETURN_IF_ERROR(uri.ApplyTo(rule->class_field(), &schema));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_URI_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_URI_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

struct ExtentUri {
  std::string scheme;
  std::string path;       // absolute
  FormatOptions options;  // of the format alone
  // Of all formats.
  std::string classes_file;  // classes=FILE; empty: none
  int64_t num_classes = 0;   // num_classes=N; 0: not given
  int64_t label_offset = 0;  // label_offset=K, added to each class index
  // What the records mean depends on these: KEY=VALUE lines in the order of the
  // keys, without `classes` and `num_classes`. Of a table all options, because
  // its index has the labels that they give.
  std::string record_options;

  // `rest`: what follows "tar:". A part of it that begins with '?' and
  // consists of KEY=VALUE pairs, separated by '&', holds options. Of a table
  // (ExtentFormat::names_files()) a link as the last part of the path stays,
  // because the paths in the table are relative to the folder of the link.
  // InvalidArgument: no path, or a wrong value of an option; names it.
  static absl::StatusOr<ExtentUri> Parse(absl::string_view scheme,
                                         absl::string_view rest,
                                         bool is_table = false);

  // "tar:/data/t-*.tar", for people.
  std::string ToString() const;
  // The same with the options on which the records depend, for a shell.
  std::string ShellArgument() const;

  // Sets names and number of the classes of `schema`, whose field `class_field`
  // (-1: none) has the number that its labels need, 0 when that is not known.
  // InvalidArgument: there is no such field, the options leave labels without a
  // class, or the file of names has one twice.
  absl::Status ApplyTo(int class_field, Schema* schema) const;
};

// InvalidArgument: `options` has a key that is not among `known`; names the
// nearest one. For ExtentFormat::List().
absl::Status CheckOptions(absl::string_view scheme,
                          const FormatOptions& options,
                          absl::Span<const absl::string_view> known);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_URI_H_
