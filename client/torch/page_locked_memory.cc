#include "client/torch/page_locked_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"

namespace millrace::device {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;

}  // namespace

PageLockedMemory::PageLockedMemory(
    std::unique_ptr<PageLock> lock,
    std::shared_ptr<std::atomic<uint64_t>> locked_bytes)
    : lock_(std::move(lock)), locked_bytes_(std::move(locked_bytes)) {}

PageLockedMemory::~PageLockedMemory() {
  for (const auto& [data, bytes] : all_) {
    lock_->Unlock(data);
    *locked_bytes_ -= bytes;
    std::free(data);
  }
}

uint64_t PageLockedMemory::Rounded(uint64_t bytes) {
  // An empty piece needs an address, too.
  return std::max((bytes + kPage - 1) / kPage, uint64_t{1}) * kPage;
}

uint8_t* PageLockedMemory::Allocate(uint64_t bytes, absl::Status* why) {
  if (bytes > std::numeric_limits<uint64_t>::max() - kPage) {
    *why = absl::ResourceExhaustedError(
        absl::StrCat(FormatByteSize(bytes), " are more than any machine has"));
    return nullptr;
  }
  const uint64_t rounded = Rounded(bytes);
  std::vector<uint8_t*>& unused = unused_[rounded];
  if (!unused.empty()) {
    uint8_t* const data = unused.back();
    unused.pop_back();
    return data;
  }
  // Fewer and larger pages are locked in less time.
  const bool large = rounded >= 2 * kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kHugePage : kPage, rounded) != 0) {
    *why = absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", FormatByteSize(rounded)));
    return nullptr;
  }
  if (large) madvise(memory, rounded, MADV_HUGEPAGE);
  auto* const data = static_cast<uint8_t*>(memory);
  if (absl::Status status = lock_->Lock(data, rounded); !status.ok()) {
    std::free(memory);
    *why = absl::Status(
        status.code(),
        absl::StrCat("cannot lock ", FormatByteSize(rounded),
                     " of memory for the device: ", status.message()));
    return nullptr;
  }
  // In all_ until the destructor, and in unused_ while nobody has it. A piece
  // is never unlocked in between, because that may wait for the device.
  all_[data] = rounded;
  *locked_bytes_ += rounded;
  return data;
}

void PageLockedMemory::Free(uint8_t* data, uint64_t bytes) {
  unused_[Rounded(bytes)].push_back(data);
}

}  // namespace millrace::device
