#include "server/pipeline/memory_use.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/count_text.h"

namespace millrace::pipeline {
namespace {

// Max memory of finished batches that is kept for the next ones, in bytes and
// as a part of the budget.
constexpr uint64_t kMaxIdleBatchBytes = 128 << 20;
constexpr uint64_t kIdleShare = 16;
// The same for built pipelines.
constexpr uint64_t kMaxPipelineBytes = 32 << 20;
constexpr uint64_t kPipelineShare = 64;
// With an adaptive number of threads: max part of the budget for the initial
// threads, and for the threads that may be added. The initial threads also
// leave this part of the rest to batches and large images: the other parts can
// take more than half of the budget, and would then leave none for batches.
constexpr uint64_t kFirstScratchShare = 2;
constexpr uint64_t kMoreScratchShare = 16;
constexpr uint64_t kBatchesShareOfRest = 4;
// Memory for samples that are read ahead, for each thread, and its max part of
// the budget. A synthetic source may wait at every server.
constexpr uint64_t kReadBytes = 2 << 20;
constexpr uint64_t kReadShare = 16;
constexpr uint64_t kFewReadBytes = 128 << 10;
constexpr uint64_t kFewReadShare = 64;

// Large images get a part of what other parts leave, beyond what a few batches
// take. A budget of 64 MiB with two threads has nothing for them, and all for
// batches. A choice: images above 16 MiB are rare, and batches are not.
constexpr uint64_t kBatchesFirst = 32 << 20;
constexpr uint64_t kLargeImagesShare = 3;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMaxMiB = uint64_t{1} << 30;
// Budgets are tried in steps of 1 MiB up to this number of MiB, then in steps
// of this part of the budget.
constexpr uint64_t kFineSteps = 1024;

}  // namespace

std::string MemoryUse::Sentence() const {
  std::string text = absl::StrCat(
      "the memory budget of ", FormatByteSize(budget), " less ",
      FormatByteSize(scratch()), " for decoding (",
      CountText(threads, "thread"), " x ", FormatByteSize(scratch_each), "), ",
      more_scratch == 0 ? ""
      : more_threads == 0
          ? absl::StrCat(FormatByteSize(more_scratch),
                         " for more threads, too few for one, ")
          : absl::StrCat(FormatByteSize(more_scratch), " for up to ",
                         CountText(more_threads, "more thread"), ", "),
      FormatByteSize(read_buffers), " for samples read ahead, ",
      FormatByteSize(recycled), " for recycled batches, ",
      FormatByteSize(pipelines), " for pipelines",
      file_metadata == 0 ? ""
                         : absl::StrCat(", ", FormatByteSize(file_metadata),
                                        " for the footers of Parquet files and "
                                        "the lists of image folders"),
      large_images == 0 ? ""
                        : absl::StrCat(", ", FormatByteSize(large_images),
                                       " for large images"),
      " and ", FormatByteSize(elsewhere),
      " for caches and files that are read leaves ");
  if (batches > 0) absl::StrAppend(&text, FormatExactByteSize(batches));
  return text;
}

MemoryUse PlanMemory(const MemoryNeeds& needs, uint64_t budget,
                     uint64_t elsewhere) {
  MemoryUse use;
  use.budget = budget;
  use.threads = needs.threads;
  use.scratch_each = needs.scratch_each;
  use.read_threads = needs.read_threads;
  use.read_buffers = std::min(
      needs.read_threads * (needs.reads_wait ? kReadBytes : kFewReadBytes),
      budget / (needs.reads_wait ? kReadShare : kFewReadShare));
  use.recycled = std::min(kMaxIdleBatchBytes, budget / kIdleShare);
  use.pipelines = PipelineRoom(budget);
  use.file_metadata = needs.file_metadata;
  use.elsewhere = elsewhere;
  if (needs.max_threads > 0) {
    // Both are bytes and not thread counts, so that a larger budget makes no
    // other part smaller.
    const uint64_t each = needs.scratch_each + kStagingBytes;
    const uint64_t more = std::min((needs.max_threads - needs.threads) * each,
                                   budget / kMoreScratchShare);
    const uint64_t others = use.held() - use.scratch() + more + elsewhere;
    const uint64_t rest = budget - std::min(others, budget);
    const uint64_t limit = std::min(budget / kFirstScratchShare,
                                    rest - rest / kBatchesShareOfRest);
    uint64_t first = needs.threads * needs.scratch_each;
    if (first > limit) {
      first = std::max(needs.scratch_each, limit);
      use.threads = first / needs.scratch_each;
    }
    use.more_scratch = first - use.threads * needs.scratch_each + more;
    use.more_threads = use.more_scratch / each;
  }
  const uint64_t taken = use.held() + elsewhere;
  uint64_t left = budget - std::min(taken, budget);
  use.largest_image = needs.largest_image;
  if (left > kBatchesFirst) {
    // A part of what is left, so that a larger budget makes neither this part
    // nor the rest smaller.
    use.large_images = std::min(needs.largest_image,
                                (left - kBatchesFirst) / kLargeImagesShare);
    left -= use.large_images;
  }
  if (left > kMinBatchBytes) use.batches = left;
  return use;
}

std::string BatchMemory::Sentence() const {
  return absl::StrCat(
      "a batch takes ", FormatByteSize(reserved()), " (",
      CountText(rows, "row"), " x ", row_bytes,
      " bytes = ", FormatByteSize(payload), " with alignment, plus up to ",
      FormatByteSize(beside), " to build the batch); ",
      CountText(budget / std::max<uint64_t>(1, reserved()),
                "of these batches fits", "of these batches fit"),
      " at a time: ", budget_arithmetic, " for batches");
}

uint64_t PipelineRoom(uint64_t budget) {
  return std::min(kMaxPipelineBytes, budget / kPipelineShare);
}

uint64_t LargerBudget(uint64_t from, absl::FunctionRef<bool(uint64_t)> works) {
  // Not a binary search: a budget with room for more threads may be too small
  // although a smaller budget is large enough.
  for (uint64_t mib = from / kMiB + 1; mib <= kMaxMiB;
       mib += 1 + mib / kFineSteps) {
    if (works(mib * kMiB)) return mib * kMiB;
  }
  return 0;
}

uint64_t SmallestBudget(const MemoryNeeds& needs, uint64_t wanted,
                        const std::function<uint64_t(uint64_t)>& elsewhere) {
  // A binary search works, because a larger budget always leaves more for
  // batches.
  uint64_t no = 0, yes = kMaxMiB;
  const auto suffices = [&](uint64_t mib) {
    const uint64_t budget = mib * kMiB;
    return PlanMemory(needs, budget, elsewhere(budget)).batches >= wanted;
  };
  if (!suffices(yes)) return 0;
  while (yes - no > 1) {
    const uint64_t middle = no + (yes - no) / 2;
    (suffices(middle) ? yes : no) = middle;
  }
  return yes * kMiB;
}

}  // namespace millrace::pipeline
