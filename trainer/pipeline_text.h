// Describes the differences between the pipelines of training and evaluation.
// Pure functions.

#ifndef MILLRACE_TRAINER_PIPELINE_TEXT_H_
#define MILLRACE_TRAINER_PIPELINE_TEXT_H_

#include <string>

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::trainer {

// For resolved specs: "transforms (training alone has random_crop; evaluation
// alone has center_crop; normalize has other parameters), bad_samples (ZERO for
// training, FAIL for evaluation)". Empty: both produce the same from a sample.
// Data, order, batch size and packing are not compared.
std::string DifferenceOfPipelines(const PipelineSpec& training,
                                  const PipelineSpec& evaluation);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_PIPELINE_TEXT_H_
