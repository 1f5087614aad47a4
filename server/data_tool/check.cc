// millrace-data check: finds the mistakes in a pipeline file, each with its
// line.

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/spec_text.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/report.h"
#include "server/data_tool/spec_datasets.h"
#include "server/operators/operators.h"
#include "server/pipeline/engine.h"
#include "server/plan/spec_file.h"
#include "server/plan/spec_limits.h"
#include "server/storage/open.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

// Memory budget of the engine. No memory is used, because no batch is made.
constexpr uint64_t kBudgetBytes = uint64_t{4} << 30;

// Opens the pipeline over these datasets as a server does, and returns the
// steps of an epoch. `batch_size`: as in CheckSpecText().
absl::StatusOr<uint64_t> CheckAgainst(const std::vector<std::string>& uris,
                                      const std::vector<std::string>& libraries,
                                      const std::string& cache_dir,
                                      const std::string& text,
                                      const std::string& path,
                                      uint64_t batch_size) {
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, ParseSpecText(text, path));
  MR_ASSIGN_OR_RETURN(const auto operators,
                      UsageError(operators::Operators::Load(libraries)));
  std::vector<std::shared_ptr<const storage::RecordSource>> datasets;
  for (const std::string& uri : uris) {
    MR_ASSIGN_OR_RETURN(
        std::shared_ptr<const storage::RecordSource> source,
        storage::OpenRecordSource(
            uri, {.cache_dir = cache_dir, .operators = operators.get()}));
    datasets.push_back(std::move(source));
  }
  NameSource(uris[0], spec);
  MR_ASSIGN_OR_RETURN(pipeline::DatasetCatalog catalog,
                      NameDatasets(datasets, spec));
  if (batch_size > 0) spec.set_batch_size(batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(plan::kAssumedBatchSize);
  uint64_t budget_bytes = kBudgetBytes;
  for (const auto& dataset : datasets) {
    budget_bytes += dataset->metadata_bytes();  // independent of the pipeline
  }
  ByteBudget budget(budget_bytes);
  pipeline::Engine::Options options;
  options.threads = 1;
  options.read_threads = 0;
  options.budget = &budget;
  options.operators = operators.get();
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<pipeline::Engine> engine,
                      pipeline::Engine::Create(options, std::move(catalog)));
  const auto pipeline = engine->Open(spec);
  if (pipeline.ok()) return (*pipeline)->description().steps_per_epoch();
  return absl::Status(pipeline.status().code(),
                      absl::StrCat(path, ": ", pipeline.status().message()));
}

// The batch size in a text without mistakes; 0: the text has none.
uint64_t BatchSizeIn(const std::string& text) {
  const absl::StatusOr<PipelineSpec> spec = ParseSpecText(text, "");
  return spec.ok() ? spec->batch_size() : 0;
}

}  // namespace

int RunCheck(const std::vector<std::string>& args, std::ostream& out) {
  std::vector<std::string> datasets;
  std::vector<std::string> libraries;
  std::string cache_dir;
  uint64_t batch_size = 0;
  program::FlagSet flags(
      {.command = "millrace-data check",
       .summary =
           "Checks a pipeline file (protobuf text format, docs/protocol.md) "
           "and names each mistake with its line. Fields and shapes depend on "
           "the dataset: `check` checks them only with --dataset; otherwise "
           "the server checks them when a job opens.",
       .argument = "FILE.textproto",
       .examples = {"millrace-data check --dataset=lmdb:/data/train "
                    "my_pipeline.textproto"}});
  flags.Add("dataset", &datasets, "URI",
            absl::StrCat("Dataset that the pipeline must fit, ",
                         storage::SchemesText("PATH"),
                         "; for a mixture repeat the flag, once for each "
                         "dataset of the pipeline, in the pipeline's order"));
  flags
      .Add("operators", &libraries, "FILE.so",
           "Library of operators that the pipeline or the dataset needs; may "
           "be repeated")
      .Needs({"dataset"});
  AddCacheDirFlag(flags, &cache_dir).Needs({"dataset"});
  flags
      .Add("batch_size", &batch_size, "N",
           "Number of samples in a global batch; overrides the file's "
           "batch_size")
      .Default("the file's, else 2");
  int exit_code;
  if (!ParseOrLeave(flags, args, "check", out, &exit_code)) return exit_code;
  if (flags.Given("batch_size") &&
      (batch_size < 1 || batch_size > plan::kMaxBatchSize)) {
    return Report("check", UsageError(absl::InvalidArgumentError(absl::StrCat(
                               "--batch_size=", batch_size,
                               ": it must be 1 .. ", plan::kMaxBatchSize))));
  }
  const std::string flag = absl::StrCat("--batch_size=", batch_size);
  const std::string& path = flags.argument();
  const absl::StatusOr<std::string> file =
      UsageError(ReadFile(path, kMaxTextFileBytes, "the pipeline"));
  if (!file.ok()) return Report("check", file.status());
  const std::string& text = *file;
  const std::vector<SpecMistake> mistakes =
      plan::CheckSpecText(text, batch_size);
  for (const SpecMistake& mistake : mistakes) {
    std::cerr << Readable(path);
    if (mistake.line > 0) std::cerr << ":" << mistake.line;
    if (mistake.line > 0 && mistake.column > 0)
      std::cerr << ":" << mistake.column;
    std::cerr << ": "
              << Readable(batch_size > 0
                              ? NamingFlag(mistake.message, "batch_size", flag)
                              : mistake.message)
              << "\n";
  }
  std::cerr.flush();
  if (!mistakes.empty()) {
    return Report("check",
                  absl::InvalidArgumentError(absl::StrCat(
                      path, " has ", CountText(mistakes.size(), "mistake"),
                      "; correct ", mistakes.size() == 1 ? "it" : "them")));
  }
  const uint64_t own = BatchSizeIn(text);
  if (batch_size == 0 && own == 0) {
    std::cerr << "millrace-data check: " << Readable(path)
              << " sets no batch_size: checked with " << plan::kAssumedBatchSize
              << "; --batch_size=N sets another" << std::endl;
  } else if (batch_size > 0 && own > 0 && own != batch_size) {
    std::cerr << "millrace-data check: checked with " << flag
              << " instead of batch_size: " << own << " in " << Readable(path)
              << std::endl;
  }
  if (datasets.empty()) {
    out << Readable(path)
        << ": no mistakes; not checked against a dataset (--dataset=URI does "
           "that)\n";
    return program::kExitOk;
  }
  const absl::StatusOr<uint64_t> steps =
      CheckAgainst(datasets, libraries, cache_dir, text, path, batch_size);
  if (!steps.ok()) {
    return Report("check", batch_size > 0
                               ? NamingFlag(steps.status(), "batch_size", flag)
                               : steps.status());
  }
  out << Readable(path) << ": no mistakes; the pipeline fits "
      << (datasets.size() == 1 ? Readable(datasets[0]) : "the datasets") << ": "
      << CountText(*steps, "step") << " in an epoch\n";
  return program::kExitOk;
}

}  // namespace millrace::data_tool
