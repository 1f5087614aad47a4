#include "server/storage/hdf5/chunk_offsets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/storage/hdf5/hdf5_handle.h"

namespace millrace::storage {

absl::Status CaptureStandardOutput() {
  const int memory = memfd_create("millrace-hdf5", MFD_CLOEXEC);
  if (memory < 0 || dup2(memory, STDOUT_FILENO) < 0) {
    return absl::InternalError("the system gives no file in memory");
  }
  close(memory);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ChunkOffsets(hid_t set, ChunkSize size,
                                                   uint64_t chunks,
                                                   uint64_t user_block) {
  const auto damaged = [](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat("its index of chunks is damaged: ", what...));
  };
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  hsize_t written = 0;
  if (!space.ok() || H5Dget_num_chunks(set, space.get(), &written) < 0) {
    return damaged(LastHdf5Error());
  }
  std::vector<uint64_t> offsets(chunks, kNoChunk);
  // H5Ddebug() crashes on a dataset without an index.
  if (written == 0) return offsets;
  if (ftruncate(STDOUT_FILENO, 0) != 0 ||
      lseek(STDOUT_FILENO, 0, SEEK_SET) < 0) {
    return absl::InternalError("the file in memory cannot be emptied");
  }
  const bool printed = H5Ddebug(set) >= 0;
  if (!printed) return damaged(LastHdf5Error());
  if (fflush(stdout) != 0) {
    return absl::ResourceExhaustedError("its list of chunks is too long");
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> lines(
      fdopen(dup(STDOUT_FILENO), "r"), fclose);
  if (lines == nullptr || fseek(lines.get(), 0, SEEK_SET) != 0) {
    return absl::InternalError("the file in memory cannot be read");
  }
  char line[1024];
  while (fgets(line, sizeof(line), lines.get()) != nullptr) {
    // "  0xFLAGS  BYTES  ADDRESS [ROW, ...]"; headings have another form.
    unsigned flags;
    uint64_t bytes;
    uint64_t offset;
    uint64_t row;
    if (sscanf(line, " 0x%x %" SCNu64 " %" SCNu64 " [%" SCNu64, &flags, &bytes,
               &offset, &row) != 4) {
      continue;
    }
    if (row % size.rows != 0 || row / size.rows >= chunks) {
      return damaged("a chunk begins at row ", row);
    }
    if (bytes != size.bytes) {
      return damaged("the chunk at row ", row, " has ", bytes, " bytes, not ",
                     size.bytes);
    }
    // The index counts from the end of the user block.
    offsets[row / size.rows] = offset + user_block;
  }
  return offsets;
}

}  // namespace millrace::storage
