// MemoryUse is the arithmetic of the memory budget: the bytes for threads,
// reading ahead and caches, and the rest for batches. The engine reserves
// memory by it, refusals quote it and `--check_config` prints it.
//
// Plain numbers; pure functions.
//
//   MemoryUse use = PlanMemory(needs, budget->capacity());
//   if (use.batches == 0) return absl::InvalidArgumentError(use.Sentence());

#ifndef MILLRACE_SERVER_PIPELINE_MEMORY_USE_H_
#define MILLRACE_SERVER_PIPELINE_MEMORY_USE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"

namespace millrace::pipeline {

// Bytes of a batch beside its payload, at least: header, job and bookkeeping.
inline constexpr uint64_t kMinBatchBytes = 4096;

// Bytes that a worker thread may keep for samples that are not yet in a batch,
// if the number of threads adapts: reserved together with its scratch.
inline constexpr uint64_t kStagingBytes = 1 << 20;

// What does not depend on the budget.
struct MemoryNeeds {
  uint64_t threads = 1;
  // Above 0: the number adapts, up to this number (at least `threads`) if the
  // budget has room. A small budget is then not refused: the initial number is
  // smaller, at least one.
  uint64_t max_threads = 0;
  uint64_t scratch_each = 0;  // of a thread that decodes
  uint64_t read_threads = 0;  // upper bound of their number
  // Whether a dataset's Read() waits itself, so that samples are kept which
  // have been read ahead.
  bool reads_wait = false;
  uint64_t file_metadata = 0;  // what the datasets keep of their files' footers
  // What the largest image needs beside a thread's scratch; 0: no dataset has
  // images.
  uint64_t largest_image = 0;
};

// All in bytes, but for threads.
struct MemoryUse {
  uint64_t budget = 0;
  uint64_t threads = 1;  // at first
  // If the number adapts: threads that may be added, and their memory, which
  // stays reserved as long as the engine lives. The memory for batches
  // therefore never changes.
  uint64_t more_threads = 0;
  uint64_t more_scratch = 0;
  uint64_t scratch_each = 0;
  uint64_t read_threads = 0;
  uint64_t read_buffers = 0;  // samples that were read ahead
  uint64_t recycled = 0;      // memory of batches that is kept for the next
  uint64_t pipelines = 0;     // built pipelines, cached and in use
  uint64_t file_metadata = 0;
  uint64_t elsewhere = 0;  // caches of row groups
  // Set aside for images that need more than a thread's scratch: what an image
  // may need beside the scratch.
  uint64_t large_images = 0;
  uint64_t largest_image = 0;  // as MemoryNeeds has it
  uint64_t batches = 0;        // the rest; 0: there is none

  uint64_t scratch() const { return threads * scratch_each; }
  // Bytes that the engine holds for itself and its datasets, without
  // `elsewhere`.
  uint64_t held() const {
    return scratch() + more_scratch + read_buffers + recycled + pipelines +
           file_metadata + large_images;
  }

  // "the memory budget of 512 MiB less ... leaves 340 MiB"; without the size
  // when nothing is left.
  std::string Sentence() const;
};

// `elsewhere`: bytes of the budget that others may take.
MemoryUse PlanMemory(const MemoryNeeds& needs, uint64_t budget,
                     uint64_t elsewhere);

// Memory of one batch of one rank, from the bytes for batches.
struct BatchMemory {
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  uint64_t payload = 0;  // rows x row_bytes, aligned
  // Its bookkeeping, and the memory of threads for samples that are not yet in
  // the batch.
  uint64_t beside = 0;
  uint64_t budget = 0;            // for batches
  std::string budget_arithmetic;  // MemoryUse::Sentence()

  uint64_t reserved() const { return payload + beside; }
  // "64 rows x ... bytes = ...; ... of these batches fit: the memory budget of
  // ..."
  std::string Sentence() const;
};

// What a budget has for built pipelines.
uint64_t PipelineRoom(uint64_t budget);

// A budget in whole MiB, above `from` bytes, for which `works` is true, and not
// much larger than the smallest one. 0: none below 1 PiB is found.
uint64_t LargerBudget(uint64_t from, absl::FunctionRef<bool(uint64_t)> works);

// The smallest budget, in whole MiB, that leaves `wanted` bytes for batches;
// `elsewhere` gives what others may take of a budget. 0: none below 1 PiB does.
uint64_t SmallestBudget(const MemoryNeeds& needs, uint64_t wanted,
                        const std::function<uint64_t(uint64_t)>& elsewhere);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_MEMORY_USE_H_
