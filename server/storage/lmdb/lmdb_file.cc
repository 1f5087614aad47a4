#include "server/storage/lmdb/lmdb_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

// From this share of the machine's memory on, the pages of a file do not stay
// cached, so the read-ahead of a random read would waste disk time.
constexpr uint64_t kRandomAccessShare = 4;

// Values above this size are prefetched as a whole before they are used:
// without read-ahead, each page would be a separate wait.
constexpr size_t kPrefetchBytes = 16 << 10;

uint64_t MachineMemory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Only advice: errors are ignored.
void Advise(const uint8_t* begin, size_t bytes, int advice) {
  (void)madvise(const_cast<uint8_t*>(begin), bytes, advice);
}

}  // namespace

LmdbFile::LmdbFile(std::unique_ptr<const MappedFile> file,
                   const LmdbHeader& header)
    : file_(std::move(file)),
      header_(header),
      tree_(file_->data(), header),
      os_page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))),
      random_access_(file_->data().size() >
                     MachineMemory() / kRandomAccessShare) {
  if (random_access_) {
    Advise(file_->data().data(), file_->data().size(), MADV_RANDOM);
  }
}

absl::StatusOr<std::unique_ptr<const LmdbFile>> LmdbFile::Open(
    const std::string& path) {
  MR_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  MR_ASSIGN_OR_RETURN(const LmdbHeader header, ReadLmdbHeader(*file));
  return std::unique_ptr<const LmdbFile>(new LmdbFile(std::move(file), header));
}

void LmdbFile::AdviseValue(absl::Span<const uint8_t> value) const {
  if (!random_access_ || value.size() <= kPrefetchBytes) return;
  const auto begin = reinterpret_cast<uintptr_t>(value.data());
  const uintptr_t before = begin % os_page_bytes_;
  Advise(value.data() - before, value.size() + before, MADV_WILLNEED);
}

LmdbTree::Result LmdbFile::TryGet(absl::string_view key,
                                  LmdbTree::Position* position,
                                  absl::Span<const uint8_t>* value) const {
  const LmdbTree::Result result = tree_.Find(key, position, value);
  if (result == LmdbTree::Result::kFound) AdviseValue(*value);
  return result;
}

LmdbTree::Result LmdbFile::TryAt(const LmdbPlace& place,
                                 absl::Span<const uint8_t>* value) const {
  const LmdbTree::Result result = tree_.At(place, value);
  if (result == LmdbTree::Result::kFound) AdviseValue(*value);
  return result;
}

absl::StatusOr<absl::Span<const uint8_t>> LmdbFile::Get(
    absl::string_view key, LmdbTree::Position* position) const {
  absl::Span<const uint8_t> value;
  const LmdbTree::Result result = TryGet(key, position, &value);
  if (result == LmdbTree::Result::kFound) return value;
  // In a changed file, damage is reported as the change.
  MR_RETURN_IF_ERROR(CheckUnchanged());
  if (result == LmdbTree::Result::kDamaged) return DamagedTree();
  return absl::NotFoundError(absl::StrCat(path(), " has no such record"));
}

absl::Status LmdbFile::DamagedTree() const {
  return absl::DataLossError(
      absl::StrCat("a page of the index of ", path(),
                   " is damaged; copy the file again, or pack it again"));
}

void LmdbFile::Touch(absl::Span<const uint8_t> value) const {
  if (value.empty()) return;
  const uint64_t page = os_page_bytes_;
  const uint64_t before = reinterpret_cast<uintptr_t>(value.data()) % page;
  if (value.size() > page) {
    // One request for the whole value if the system supports it; otherwise page
    // by page.
    Advise(value.data() - before, value.size() + before, MADV_WILLNEED);
  }
  for (uint64_t at = 0; at < value.size(); at += page) {
    (void)*static_cast<const volatile uint8_t*>(value.data() + at);
  }
  (void)*static_cast<const volatile uint8_t*>(&value.back());
}

}  // namespace millrace::storage
