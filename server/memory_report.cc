#include "server/memory_report.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

void Line(std::string* out, const std::string& name, const std::string& value,
          const std::string& why) {
  absl::StrAppendFormat(out, "%-20s %-14s %s\n", name, value, why);
}

std::string DescribeFit(const std::string& name, const BatchMemory& batch,
                        uint64_t left) {
  std::string out;
  Line(&out, name, FormatByteSize(batch.reserved()),
       absl::StrCat("a batch: ", batch.rows, " rows x ", batch.row_bytes,
                    " bytes make ", FormatByteSize(batch.payload),
                    ", and up to ", FormatByteSize(batch.beside),
                    " beside it on its way"));
  Line(&out, "", "",
       absl::StrCat(left / batch.reserved(),
                    " fit at a time: being filled, being sent, or asked for "
                    "by all clients together"));
  return out;
}

}  // namespace

absl::Status CheckMemory(const ServerSettings& settings,
                         const MemoryNeeds& needs, const BudgetAdvice& advice) {
  const uint64_t budget = settings.memory_budget_bytes;
  const MemoryUse use =
      PlanMemory(needs, budget, RowGroupCacheBytes(settings, budget));
  if (use.batches > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      use.Sentence(), "nothing for batches: ",
      advice.Sentence(kLeastBatchBytes + 1), ", or give fewer --threads"));
}

std::string DescribeMemory(const MemoryUse& use) {
  std::string out;
  Line(&out, "memory budget", FormatByteSize(use.budget), "of which");
  Line(
      &out, "  scratch", FormatByteSize(use.scratch()),
      absl::StrCat(use.threads, " threads x ", FormatByteSize(use.scratch_each),
                   " to decode and augment"));
  if (use.more_scratch > 0) {
    Line(&out, "  more threads", FormatByteSize(use.more_scratch),
         use.more_threads == 0
             ? "no room for another thread"
             : absl::StrCat("room for up to ", use.more_threads,
                            " more, as it pays: ",
                            use.threads + use.more_threads, " in all"));
  }
  Line(&out, "  read ahead", FormatByteSize(use.read_buffers),
       absl::StrCat("samples that up to ", use.read_threads,
                    " threads have read and none has decoded"));
  Line(&out, "  recycled batches", FormatByteSize(use.recycled),
       "memory kept for the next ones");
  Line(&out, "  pipelines", FormatByteSize(use.pipelines),
       "built pipelines, cached and in use");
  Line(&out, "  row group cache", FormatByteSize(use.elsewhere),
       "decoded Parquet row groups");
  Line(&out, "  batches", FormatByteSize(use.batches), "the rest");
  return out;
}

absl::StatusOr<std::string> DescribePipeline(Engine& engine,
                                             const PipelineSpec& spec,
                                             const std::string& name,
                                             const BudgetAdvice& advice) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const Pipeline> pipeline,
                      engine.Open(spec));
  MR_ASSIGN_OR_RETURN(const BatchMemory batch, pipeline->batch_memory(1));
  const uint64_t left = engine.batch_budget_bytes();
  if (absl::Status fits = pipeline->MaxPayloadBytes(1).status(); !fits.ok()) {
    return absl::Status(fits.code(),
                        absl::StrCat(name, ": ", fits.message(), "; ",
                                     advice.Sentence(batch.reserved(), &spec)));
  }
  return DescribeFit(name, batch, left);
}

absl::StatusOr<std::string> DescribePresets(Engine& engine,
                                            const BudgetAdvice& advice) {
  std::string out;
  for (PipelineSpec& spec : PresetSpecs(engine.catalog(), kExampleRows)) {
    const std::string& name = spec.sources(0).dataset();
    const std::string what =
        spec.preset().empty() ? name : absl::StrCat(name, " ", spec.preset());
    auto opened = engine.Open(spec);
    if (!opened.ok()) {
      // Its images have as many sizes as they like, for one.
      Line(&out, what, "", "depends on the pipeline: --check_pipeline=FILE");
      continue;
    }
    MR_ASSIGN_OR_RETURN(const BatchMemory batch, (*opened)->batch_memory(1));
    const uint64_t left = engine.batch_budget_bytes();
    if (batch.reserved() <= left) {
      absl::StrAppend(&out, DescribeFit(what, batch, left));
      continue;
    }
    PipelineSpec row = spec;
    row.set_batch_size(1);
    MR_ASSIGN_OR_RETURN(const std::string one,
                        DescribePipeline(engine, row, what, advice));
    absl::StrAppend(&out, one);
    Line(&out, "", "",
         absl::StrCat(kExampleRows, " rows of one rank would take ",
                      FormatByteSize(batch.reserved()), ": ",
                      advice.Sentence(batch.reserved(), &spec)));
  }
  return out;
}

}  // namespace millrace
