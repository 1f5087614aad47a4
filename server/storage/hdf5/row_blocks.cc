#include "server/storage/hdf5/row_blocks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/status_macros.h"

namespace millrace::storage {

void RowBlocks::Add(std::unique_ptr<ReaderProcess> process) {
  const MutexLock lock(mu_);
  processes_.push_front(std::move(process));
  if (processes_.size() > kMaxProcesses) processes_.pop_back();
}

absl::StatusOr<ReaderProcess*> RowBlocks::Process(const std::string& file) {
  const auto found = std::find_if(
      processes_.begin(), processes_.end(),
      [&file](const auto& process) { return process->file() == file; });
  if (found != processes_.end()) {
    processes_.splice(processes_.begin(), processes_, found);
    return processes_.front().get();
  }
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ReaderProcess> process,
                      ReaderProcess::Start(file));
  processes_.push_front(std::move(process));
  if (processes_.size() > kMaxProcesses) processes_.pop_back();
  return processes_.front().get();
}

void RowBlocks::Forget() {
  uint64_t bytes = 0;
  std::map<int, int> seen;  // blocks of each dataset
  // The front block stays.
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    // Blocks of other files than the last one are not needed again.
    const bool of_last = block->file == blocks_.front().file;
    if (of_last && (++seen[block->set] <= 2 ||
                    bytes + block->rows.bytes() <= kKeptBytes)) {
      bytes += block->rows.bytes();
      ++block;
    } else {
      block = blocks_.erase(block);
    }
  }
}

absl::Status RowBlocks::Read(
    const std::string& file, int set, uint64_t row, Ahead ahead,
    absl::FunctionRef<void(absl::Span<const uint8_t>)> use) {
  const MutexLock lock(mu_);
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
        return block.set == set && block.rows.Has(row) && block.file == file;
      });
  if (found != blocks_.end()) {
    use(found->rows.row(row));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(ReaderProcess* const process, Process(file));
  MR_ASSIGN_OR_RETURN(
      RowBlock rows,
      process->Read(set, row, ahead == Ahead::kNone ? 1 : UINT64_MAX));
  blocks_.push_front({.file = file, .set = set, .rows = std::move(rows)});
  Forget();
  use(blocks_.front().rows.row(row));
  return absl::OkStatus();
}

}  // namespace millrace::storage
