// What a ReaderProcess and the program millrace-hdf5 say to each other, over
// two pipes. Both are of one build and run on one machine, so that numbers are
// in the order of the machine.
//
// The arguments of the program are kHdf5Protocol and the path of the file. It
// sends the Hdf5Layout of the file first. Then each Request gets
// one reply, until the pipe of the requests ends.
//
// A reply is a ReplyHead and its bytes: a message of an error, or a layout, or
// rows:
//
//   u64 number of rows | of variable values: u64 length of each row in bytes |
//   the rows
//
// Plain data.

#ifndef MILLRACE_SERVER_STORAGE_HDF5_READER_MESSAGES_H_
#define MILLRACE_SERVER_STORAGE_HDF5_READER_MESSAGES_H_

#include <cstdint>

namespace millrace::storage {

// The first argument of the program; changes with these messages. A program of
// another build answers with an error.
inline constexpr char kHdf5Protocol[] = "1";

// Rows from `first` on, as many as are cheap to read together, at least one and
// at most `max_rows`.
struct Hdf5Request {
  uint64_t dataset = 0;  // index into Hdf5Layout.datasets
  uint64_t first = 0;
  uint64_t max_rows = UINT64_MAX;
};

struct Hdf5ReplyHead {
  uint64_t code = 0;  // absl::StatusCode
  uint64_t bytes = 0;
};

// Bytes of the rows of a reply, where a chunk does not have more.
inline constexpr uint64_t kHdf5BlockBytes = uint64_t{8} << 20;
// Max bytes of a row of fixed size, as SampleCheck has it.
inline constexpr uint64_t kHdf5MaxRowBytes = uint64_t{1} << 31;
// Max bytes of a reply.
inline constexpr uint64_t kHdf5MaxReplyBytes = uint64_t{4} << 30;
// A file with more datasets is no table of samples.
inline constexpr int kHdf5MaxDatasets = 4096;

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_READER_MESSAGES_H_
