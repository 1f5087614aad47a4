// ReadMemory is the part of the memory budget for what the readers of a dataset
// hold while they read it: the largest file or record, which must always fit,
// and others beside it as far as there is room.
//
// Thread-safe. Owns its reservations and the FileRoom; the budgets must outlive
// it.
//
//   MR_ASSIGN_OR_RETURN(auto memory, ReadMemory::Reserve(use, options, &list));
//   FileRoom::Buffer buffer(memory->room(), bytes);

#ifndef MILLRACE_SERVER_STORAGE_READ_MEMORY_H_
#define MILLRACE_SERVER_STORAGE_READ_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/file_room.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

// Who reads what, with the words for errors and warnings.
struct ReadUse {
  uint64_t largest_bytes = 0;  // of one file or record
  // "DIR/1.jpg has 5 GiB, and the server holds a file as a whole while it reads
  // it"
  std::string largest;
  std::string largest_of;  // "the largest file of an image folder"
  std::string remedy;  // "pack the folder, or remove the file"; may be empty
  // A warning if nothing is left for other readers.
  std::string one_at_a_time;
  const DatasetInfo* dataset = nullptr;  // for advice; null: not known
};

class ReadMemory {
 public:
  // Takes bytes of options.metadata_budget and options.read_budget; without a
  // read budget readers are not bounded and nothing is taken. `list`: the
  // reservation of the dataset's list, which an error gives back.
  // ResourceExhausted, a usage error: the largest one does not fit.
  static absl::StatusOr<std::unique_ptr<ReadMemory>> Reserve(
      const ReadUse& use, const OpenSourceOptions& options,
      ByteBudget::Reservation* list);

  FileRoom& room() { return room_; }
  // Charge of the largest one; 0: readers are not bounded.
  uint64_t largest_bytes() const { return largest_bytes_; }
  uint64_t unused_bytes() const {
    return largest_bytes_ == 0 ? 0 : room_.max_bytes() - room_.used_bytes();
  }

 private:
  ReadMemory(ByteBudget::Reservation largest, ByteBudget::Reservation others,
             uint64_t largest_bytes);

  const ByteBudget::Reservation largest_;
  const ByteBudget::Reservation others_;
  const uint64_t largest_bytes_;
  FileRoom room_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_READ_MEMORY_H_
