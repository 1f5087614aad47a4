// RowBlocks gives rows of HDF5 files that cannot be read by offset: compressed,
// big-endian, of variable length. Rows that are asked for about in order are
// decompressed once: the last blocks of rows stay in memory.
//
// Thread-safe: threads wait for each other, because libhdf5 has one thread for
// each file. Owns the processes that read, few of them at a time.
//
//   MR_RETURN_IF_ERROR(blocks.Read("/data/1.h5", 0, 17,
//                                  RowBlocks::Ahead::kBlock, [&](auto value) {
//     out.append(...); }));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_ROW_BLOCKS_H_
#define MILLRACE_SERVER_STORAGE_HDF5_ROW_BLOCKS_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/storage/hdf5/reader_process.h"

namespace millrace::storage {

class RowBlocks {
 public:
  // Bytes of blocks that are kept; of each dataset two blocks stay in any case,
  // so that threads at the end of one and the beginning of the next do not
  // decompress both again and again.
  static constexpr uint64_t kKeptBytes = uint64_t{64} << 20;
  static constexpr size_t kMaxProcesses = 4;

  // Keeps a process that has been started.
  void Add(std::unique_ptr<ReaderProcess> process);

  // How many rows are read if the one that is asked for is not kept.
  enum class Ahead { kNone, kBlock };

  // Calls `use` with row `row` of dataset `set` of `file`, which exists. Errors
  // of ReaderProcess.
  absl::Status Read(const std::string& file, int set, uint64_t row, Ahead ahead,
                    absl::FunctionRef<void(absl::Span<const uint8_t>)> use);

 private:
  struct Block {
    std::string file;
    int set = 0;
    RowBlock rows;
  };

  absl::StatusOr<ReaderProcess*> Process(const std::string& file)
      MR_REQUIRES(mu_);
  void Forget() MR_REQUIRES(mu_);

  Mutex mu_;
  // The one that was used last comes first, in both lists.
  std::list<std::unique_ptr<ReaderProcess>> processes_ MR_GUARDED_BY(mu_);
  std::list<Block> blocks_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_ROW_BLOCKS_H_
