#include "server/memory_report.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::server {
namespace {

// Footers that take more than this part of the budget are mentioned.
constexpr uint64_t kManyFootersShare = 4;

void Line(std::string* out, const std::string& name, const std::string& value,
          const std::string& why) {
  absl::StrAppendFormat(out, "%-20s %-14s %s\n", name, value, why);
}

std::string DescribeFit(const std::string& name,
                        const pipeline::BatchMemory& batch, uint64_t left) {
  std::string out;
  Line(&out, name, FormatByteSize(batch.reserved()),
       absl::StrCat(CountText(batch.rows, "row"), " x ", batch.row_bytes,
                    " bytes = ", FormatByteSize(batch.payload), ", plus up to ",
                    FormatByteSize(batch.beside), " to build it"));
  Line(
      &out, "", "",
      absl::StrCat(CountText(left / batch.reserved(), "batch of this size fits",
                             "batches of this size fit"),
                   " into the memory for batches, for all clients together"));
  return out;
}

// For a pipeline that Engine::Open() refuses for lack of memory, for its
// columns or for itself.
absl::Status NoRoom(const std::string& name, const absl::Status& refused,
                    const BudgetAdvice& advice, const PipelineSpec& spec) {
  return absl::Status(
      refused.code(),
      absl::StrCat(name, ": ", refused.message(), "; ",
                   advice.Sentence(pipeline::kMinBatchBytes + 1, &spec)));
}

// A spec that the server would refuse from every client is a mistake in the
// file. A dataset with damaged files is not.
template <typename T>
absl::StatusOr<T> Mistake(absl::StatusOr<T> opened) {
  const absl::Status& status = opened.status();
  const bool mistake =
      absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
      absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status);
  return mistake ? UsageError(std::move(opened)) : opened;
}

}  // namespace

absl::Status CheckMinBudget(const ServerSettings& settings) {
  if (settings.memory_budget_bytes >= kMinBudgetBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the memory budget of ",
      FormatExactByteSize(settings.memory_budget_bytes),
      " is below the minimum, which is ", FormatByteSize(kMinBudgetBytes)));
}

absl::Status CheckMemory(const ServerSettings& settings,
                         const pipeline::MemoryNeeds& needs,
                         const BudgetAdvice& advice) {
  const uint64_t budget = settings.memory_budget_bytes;
  if (const absl::Status enough = CheckMinBudget(settings); !enough.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        enough.message(), ": ", advice.Sentence(pipeline::kMinBatchBytes + 1)));
  }
  const pipeline::MemoryUse use =
      pipeline::PlanMemory(needs, budget, ReadMemoryBytes(settings, budget));
  if (use.batches > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      use.Sentence(),
      "nothing for batches: ", advice.Sentence(pipeline::kMinBatchBytes + 1),
      use.threads > 1 ? ", or lower --threads" : "",
      use.file_metadata > budget / kManyFootersShare
          ? ", or write the Parquet files again with larger row "
            "groups or fewer columns, or pack the image folders"
          : ""));
}

std::string DescribeMemory(const pipeline::MemoryUse& use,
                           uint64_t file_read_bytes) {
  std::string out;
  absl::StrAppend(&out, "\n");
  Line(&out, "MEMORY", "SIZE", "FOR");
  Line(&out, "memory budget", FormatByteSize(use.budget),
       "the sum of the parts below");
  Line(
      &out, "  scratch", FormatByteSize(use.scratch()),
      absl::StrCat(CountText(use.threads, "thread"), " x ",
                   FormatByteSize(use.scratch_each), " to decode and augment"));
  if (use.more_scratch > 0) {
    Line(&out, "  more threads", FormatByteSize(use.more_scratch),
         use.more_threads == 0
             ? "too little for another thread at this budget; set aside all "
               "the same"
             : absl::StrCat("up to ", use.more_threads, " more threads, ",
                            use.threads + use.more_threads,
                            " in all, when more threads make batches faster"));
  }
  Line(&out, "  read ahead", FormatByteSize(use.read_buffers),
       absl::StrCat(
           "samples that up to ", use.read_threads,
           " read threads have read and no worker thread has decoded yet"));
  Line(&out, "  recycled batches", FormatByteSize(use.recycled),
       "memory of sent batches, kept for the next batches");
  Line(&out, "  pipelines", FormatByteSize(use.pipelines),
       "pipelines that are built, cached or in use");
  Line(&out, "  file metadata", FormatByteSize(use.file_metadata),
       "parsed footers of Parquet files; lists of image folders and indexes of "
       "tar shards, each with the largest file or record");
  Line(&out, "  row group cache",
       FormatByteSize(use.elsewhere - file_read_bytes),
       "decoded Parquet row groups and Arrow record batches");
  Line(
      &out, "  file reads", FormatByteSize(file_read_bytes),
      "further files of image folders and records of tar shards while they are "
      "read");
  if (use.largest_image > 0) {
    const std::string each =
        FormatByteSize(use.scratch_each + use.large_images);
    Line(&out, "  large images", FormatByteSize(use.large_images),
         use.large_images > 0
             ? absl::StrCat(
                   "images that need more than the scratch of a thread; up to ",
                   each, " for an image")
             : absl::StrCat("too small a budget for them: the server refuses "
                            "images that need more than ",
                            each, ", the scratch of a thread"));
  }
  Line(&out, "  batches", FormatByteSize(use.batches),
       "the rest, for batches that are filled, ready or being sent");
  return out;
}

absl::StatusOr<std::string> DescribePipeline(pipeline::Engine& engine,
                                             const PipelineSpec& spec,
                                             const std::string& name,
                                             const BudgetAdvice& advice) {
  auto opened = engine.Open(spec);
  // A server that refuses synthetic data reports this here; memory is not the
  // reason.
  if (absl::IsFailedPrecondition(opened.status()) &&
      !spec.sources(0).has_synthetic()) {
    return UsageError(NoRoom(name, opened.status(), advice, spec));
  }
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const pipeline::Pipeline> pipeline,
                      Mistake(std::move(opened)));
  MR_ASSIGN_OR_RETURN(const pipeline::BatchMemory batch,
                      pipeline->batch_memory(1));
  const uint64_t left = engine.batch_budget_bytes();
  if (absl::Status fits = pipeline->MaxPayloadBytes(1).status(); !fits.ok()) {
    return UsageError(absl::Status(
        fits.code(), absl::StrCat(name, ": ", fits.message(), "; ",
                                  advice.Sentence(batch.reserved(), &spec))));
  }
  return DescribeFit(name, batch, left);
}

absl::StatusOr<std::string> DescribePresets(pipeline::Engine& engine,
                                            const BudgetAdvice& advice) {
  std::string out;
  for (PipelineSpec& spec : PresetSpecs(engine.catalog(), kExampleRows)) {
    const std::string& name = spec.sources(0).dataset();
    const std::string what =
        spec.preset().empty() ? name : absl::StrCat(name, " ", spec.preset());
    auto opened = engine.Open(spec);
    PipelineSpec row = spec;
    row.set_batch_size(1);
    if (absl::IsFailedPrecondition(opened.status())) {
      const absl::Status refused = NoRoom(what, opened.status(), advice, row);
      if (!advice.Reads(name)) return UsageError(refused);
      Line(&out, what, "does not fit", std::string(refused.message()));
      continue;
    }
    if (!opened.ok()) {
      // For example, the images differ in size.
      Line(&out, what, "",
           "depends on the pipeline: --check_pipeline=FILE calculates it");
      continue;
    }
    MR_ASSIGN_OR_RETURN(const pipeline::BatchMemory batch,
                        (*opened)->batch_memory(1));
    const uint64_t left = engine.batch_budget_bytes();
    if (batch.reserved() <= left) {
      absl::StrAppend(&out, DescribeFit(what, batch, left));
      continue;
    }
    MR_ASSIGN_OR_RETURN(const std::string one,
                        DescribePipeline(engine, row, what, advice));
    absl::StrAppend(&out, one);
    Line(&out, "", "",
         absl::StrCat("a batch of ", kExampleRows, " rows would need ",
                      FormatByteSize(batch.reserved()), ": ",
                      advice.Sentence(batch.reserved(), &spec)));
  }
  return out;
}

}  // namespace millrace::server
