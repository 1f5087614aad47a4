// RunData is the data of a run: the pipelines of training and evaluation, the
// loader, and the conversion of its batches to inputs and targets of a model.
//
// What it is not: it takes no batch. The evaluation's loader opens when an
// evaluation runs (evaluation.h).
//
// One thread.
//
//   MR_ASSIGN_OR_RETURN(RunData data,
//                       OpenRunData(config, env, device, resume));
//   for (const std::string& line : Describe(data)) ...
//   MR_ASSIGN_OR_RETURN(Batch batch, data.loader->Next());

#ifndef MILLRACE_TRAINER_RUN_DATA_H_
#define MILLRACE_TRAINER_RUN_DATA_H_

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/loader.h"
#include "trainer/bad_sample_report.h"
#include "trainer/batch_reader.h"
#include "trainer/config.h"
#include "trainer/evaluation.h"
#include "trainer/rank_env.h"
#include "trainer/resume.h"
#include "trainer/specs.h"

namespace millrace::trainer {

struct RunData {
  RunSpecs specs;
  std::unique_ptr<BadSampleReport> bad_samples;
  std::unique_ptr<DataLoader> loader;  // for training
  std::unique_ptr<BatchReader> reader;
  std::unique_ptr<Evaluation> evaluation;  // null: none
  std::string audit_file;                  // this rank's; empty: none
  bool done = false;  // all epochs were trained before `resume`
};

// InvalidArgument: flags, pipelines, data or the checkpoint do not fit
// together. UsageError (common/usage_error.h): no server knows what the flags
// name. Others: as DataLoader::Open().
absl::StatusOr<RunData> OpenRunData(const TrainerConfig& config,
                                    const RankEnv& env, torch::Device device,
                                    const ResumePoint& resume);

// Lines for people: the target, the input and the pipelines.
std::vector<std::string> Describe(const RunData& data);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RUN_DATA_H_
