// ReaderProcess reads one HDF5 file by a process of its own, millrace-hdf5:
// libhdf5 is not thread-safe and can crash on damaged files, so that no program
// of Millrace links it. A crash is an error of the file.
//
// It is no cache, and does not know fields (hdf5_fields.h).
//
// One thread at a time. Owns the process and ends it.
//
//   MR_ASSIGN_OR_RETURN(auto file, ReaderProcess::Start("/data/train.h5"));
//   MR_ASSIGN_OR_RETURN(RowBlock rows, file->Read(0, 17));
//   Use(rows.row(17));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_READER_PROCESS_H_
#define MILLRACE_SERVER_STORAGE_HDF5_READER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/hdf5_layout.pb.h"
#include "proto/names.h"
#include "server/storage/hdf5/reader_messages.h"

namespace millrace::storage {

// Rows of a dataset that follow each other.
class RowBlock {
 public:
  uint64_t first() const { return first_; }
  uint64_t rows() const { return ends_.size(); }
  uint64_t bytes() const { return reply_.size(); }
  bool Has(uint64_t row) const {
    return row >= first_ && row - first_ < rows();
  }
  // Of row `row` of the dataset, which the block has.
  absl::Span<const uint8_t> row(uint64_t row) const;

 private:
  friend class ReaderProcess;

  uint64_t first_ = 0;
  std::string reply_;
  uint64_t start_ = 0;          // of the first row in reply_
  std::vector<uint64_t> ends_;  // of each row in reply_
};

class ReaderProcess {
 public:
  // NotFound, PermissionDenied: of the file, or there is no millrace-hdf5.
  // DataLoss: it is no HDF5 file, or is damaged. Unavailable: another program
  // writes the file. InvalidArgument: it is no table of samples. Each names the
  // file and says what to do.
  static absl::StatusOr<std::unique_ptr<ReaderProcess>> Start(
      const std::string& file);

  // Ends the process.
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  const std::string& file() const { return file_; }
  // Every dataset without `left_out` has a row size that fits into 2 GiB.
  const Hdf5Layout& layout() const { return layout_; }

  // Row `first` of dataset `set`, which is not left out, and rows behind it, at
  // most `max_rows`, which is not 0.
  // DataLoss: they are damaged, or libhdf5 crashed; names the file. The process
  // has then ended, or goes on.
  absl::StatusOr<RowBlock> Read(int set, uint64_t first,
                                uint64_t max_rows = UINT64_MAX);

 private:
  ReaderProcess(std::string file, UniqueFd socket, pid_t pid)
      : file_(std::move(file)), socket_(std::move(socket)), pid_(pid) {}

  absl::Status ReadLayout();
  // The bytes of the next reply.
  absl::StatusOr<std::string> Receive();
  bool ReceiveAll(void* data, size_t bytes);
  // Why the process has ended.
  absl::Status Ended();
  void Stop();

  const std::string file_;
  UniqueFd socket_;
  pid_t pid_;            // -1: the process has ended
  int wait_status_ = 0;  // of a process that has ended
  Hdf5Layout layout_;
};

// Bytes of a row of `set` whose values are not variable.
uint64_t RowBytes(const Hdf5Dataset& set);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_READER_PROCESS_H_
