// FileTable is what a format whose samples are files of their own (csv:) knows
// of them before it looks at a file: which file each sample is, and the values
// of its other fields. The index of such a dataset (index_builder.h) holds the
// values and the identities of the files; the table is read to make it.
//
// It looks at none of the files. Immutable and thread-safe.
//
//   MR_ASSIGN_OR_RETURN(auto table, format.ReadTable(uri, text));
//   Stat(table->path(17));   // "/data/images/17.jpg"
//   table->value(1, 17);     // the bytes of its field 1

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_FILE_TABLE_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_FILE_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

class FileTable {
 public:
  virtual ~FileTable() = default;

  // Field 0 is the bytes of the file. The classes are final: the options of the
  // labels are applied.
  virtual const Schema& schema() const = 0;
  // Field of the class index; -1: none.
  virtual int class_field() const = 0;

  virtual int64_t rows() const = 0;  // at least 1

  // The file as the table names it: absolute, or relative to the folder of the
  // table. Lives as long as the table.
  virtual absl::string_view name(int64_t row) const = 0;
  virtual std::string path(int64_t row) const = 0;

  // The bytes of field `field`, from 1 on, which suit the schema.
  virtual absl::Span<const uint8_t> value(int field, int64_t row) const = 0;

  // Where the table names the file, for errors: "line 17".
  virtual std::string place(int64_t row) const = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_FILE_TABLE_H_
