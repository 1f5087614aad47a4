// Reads rows of the datasets of an open HDF5 file, decompressed and in the
// order of the machine, as replies (reader_messages.h).
//
// A reply has the rows of whole chunks where these are small, so that rows that
// are asked for in order decompress each chunk once.
//
// One thread. Does not own the file and the layout, which must outlive it.
//
//   RowReader rows(file, layout);
//   MR_RETURN_IF_ERROR(rows.Read({.dataset = 0, .first = 0}, &reply));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_ROW_READER_H_
#define MILLRACE_SERVER_STORAGE_HDF5_ROW_READER_H_

#include <hdf5/serial/hdf5.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/hdf5_layout.pb.h"
#include "proto/names.h"
#include "server/storage/hdf5/hdf5_handle.h"
#include "server/storage/hdf5/reader_messages.h"

namespace millrace::storage {

class RowReader {
 public:
  RowReader(hid_t file, const Hdf5Layout& layout)
      : file_(file), layout_(layout) {}

  // Replaces `reply` by rows. DataLoss: they are damaged; a sentence behind
  // "FILE: ".
  absl::Status Read(const Hdf5Request& request, std::string* reply);

 private:
  struct Open {
    Hdf5Handle set;
    Hdf5Handle space;
    Hdf5Handle memory_type;
    uint64_t row_bytes = 0;
    uint64_t step = 1;        // rows of a reply of fixed rows
    uint64_t chunk_rows = 1;  // rows that are damaged together
  };

  absl::StatusOr<Open*> OpenSet(uint64_t i);
  absl::Status ReadFixed(const Open& open, const Hdf5Dataset& set,
                         const Hdf5Request& request, std::string* reply);
  absl::Status ReadVariable(const Open& open, const Hdf5Dataset& set,
                            const Hdf5Request& request, std::string* reply);
  absl::Status ReadRows(const Open& open, const Hdf5Dataset& set,
                        uint64_t first, uint64_t rows, void* out);

  const hid_t file_;
  const Hdf5Layout& layout_;
  std::map<uint64_t, Open> open_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_ROW_READER_H_
