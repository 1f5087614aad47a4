// millrace-data check: the mistakes in a pipeline file, each with its line.

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/spec_text.h"
#include "server/data_tool/command_line.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/first_of.h"
#include "server/data_tool/read_file.h"
#include "server/data_tool/report.h"
#include "server/data_tool/spec_datasets.h"
#include "server/operators/operators.h"
#include "server/pipeline/operator_catalog.h"
#include "server/plan/resolve.h"
#include "server/plan/spec_file.h"
#include "server/storage/open.h"

namespace millrace {
namespace {

constexpr char kSummary[] =
    "Checks a pipeline file (protobuf text format, docs/protocol.md) and "
    "names\n"
    "each mistake with its line. What depends on the dataset (its fields and\n"
    "their shapes) is checked with --dataset only; otherwise the server does\n"
    "it when a job opens.\n\n"
    "  millrace-data check --dataset=lmdb:/data/train my_pipeline.textproto";

// Of a dataset whose fields are all put out: what is missing of its columns.
void ListLeftOut(const std::string& uri, const DatasetInfo& info,
                 std::vector<std::string>* warnings) {
  if (info.left_out().empty()) return;
  std::vector<std::string> columns;
  for (const LeftOutColumn& column : info.left_out()) {
    columns.push_back(absl::StrCat(column.name(), " (", column.reason(), ")"));
  }
  warnings->push_back(absl::StrCat(
      uri, ": columns are left out of the batches: ",
      FirstOf(columns, ", ", static_cast<int64_t>(columns.size()))));
}

// What the server would say of the pipeline over these datasets. `batch_size`
// as CheckSpecText() takes it.
absl::Status CheckAgainst(const std::vector<std::string>& uris,
                          const std::vector<std::string>& libraries,
                          const std::string& text, const std::string& path,
                          uint64_t batch_size,
                          std::vector<std::string>* warnings) {
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, ParseSpecText(text, path));
  MR_ASSIGN_OR_RETURN(const auto operators,
                      UsageError(Operators::Load(libraries)));
  std::vector<std::shared_ptr<const RecordSource>> datasets;
  for (const std::string& uri : uris) {
    MR_ASSIGN_OR_RETURN(std::shared_ptr<const RecordSource> source,
                        OpenRecordSource(uri, {.operators = operators.get()}));
    if (spec.outputs().empty()) ListLeftOut(uri, source->info(), warnings);
    datasets.push_back(std::move(source));
  }
  MR_ASSIGN_OR_RETURN(const NamedDatasets named, NameDatasets(datasets, spec));
  std::map<std::string, DatasetInfo> infos;
  DatasetInfos by_name;
  for (const auto& [name, source] : named) {
    DatasetInfo& info = infos[name] = source->info();
    info.set_name(name);
    by_name[name] = &info;
  }
  if (batch_size > 0) spec.set_batch_size(batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(kAssumedBatchSize);
  const absl::StatusOr<PipelineSpec> resolved =
      ResolveSpec(spec, by_name, NewOperatorCatalog(operators.get()).get());
  if (resolved.ok()) return absl::OkStatus();
  return absl::Status(resolved.status().code(),
                      absl::StrCat(path, ": ", resolved.status().message()));
}

// Of a text without mistakes.
bool SaysBatchSize(const std::string& text) {
  const absl::StatusOr<PipelineSpec> spec = ParseSpecText(text, "");
  return spec.ok() && spec->batch_size() != 0;
}

}  // namespace

int RunCheck(const Args& args, std::ostream& out) {
  CommandLine line("check", kSummary, "FILE.textproto");
  std::vector<std::string> datasets;
  line.Add("dataset", "URI",
           "also check the pipeline against this dataset, lmdb:PATH or "
           "parquet:PATH; of a mixture once for each dataset that the pipeline "
           "names, in their order",
           &datasets);
  std::vector<std::string> libraries;
  line.Add("operators", "FILE.so",
           "library of operators that the pipeline or the dataset needs; may "
           "be given several times",
           &libraries);
  line.Needs("operators", {"dataset"});
  int64_t batch_size = 0;
  line.Add("batch_size", "N",
           "samples of a global batch (default: what the file says, else 2)",
           &batch_size);
  int exit_code;
  if (!ParseOrLeave(line, args, "check", out, &exit_code)) return exit_code;
  if (line.Given("batch_size") && batch_size < 1) {
    return Report("check", UsageError(absl::InvalidArgumentError(absl::StrCat(
                               "--batch_size=", batch_size, ": 1 or more"))));
  }
  const std::string& path = line.operands()[0];
  std::string text;
  if (const absl::Status status = ReadWholeFile(path, &text); !status.ok()) {
    return Report("check", UsageError(status));
  }
  const std::vector<SpecMistake> mistakes =
      CheckSpecText(text, static_cast<uint64_t>(batch_size));
  for (const SpecMistake& mistake : mistakes) {
    std::cerr << path;
    if (mistake.line > 0) std::cerr << ":" << mistake.line;
    if (mistake.line > 0 && mistake.column > 0)
      std::cerr << ":" << mistake.column;
    std::cerr << ": " << mistake.message << "\n";
  }
  std::cerr.flush();
  if (!mistakes.empty()) {
    return Report("check",
                  absl::InvalidArgumentError(absl::StrCat(
                      path, " has ", CountText(mistakes.size(), "mistake"),
                      "; correct ", mistakes.size() == 1 ? "it" : "them")));
  }
  if (batch_size == 0 && !SaysBatchSize(text)) {
    std::cerr << "millrace-data check: " << path
              << " says no batch_size: checked with " << kAssumedBatchSize
              << "; --batch_size=N checks another" << std::endl;
  }
  if (datasets.empty()) {
    out << path
        << ": no mistakes in the file; its fit to a dataset is not checked "
           "(--dataset=URI does)\n";
    return kExitOk;
  }
  std::vector<std::string> warnings;
  if (const absl::Status status =
          CheckAgainst(datasets, libraries, text, path,
                       static_cast<uint64_t>(batch_size), &warnings);
      !status.ok()) {
    return Report("check", status);
  }
  Warn("check", warnings);
  out << path << ": no mistakes, and it fits "
      << (datasets.size() == 1 ? datasets[0] : "the datasets") << "\n";
  return kExitOk;
}

}  // namespace millrace
