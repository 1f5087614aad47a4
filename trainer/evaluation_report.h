// Formats the result of an evaluation: a line, TensorBoard's points and the
// numbers of the summary. Pure functions.

#ifndef MILLRACE_TRAINER_EVALUATION_REPORT_H_
#define MILLRACE_TRAINER_EVALUATION_REPORT_H_

#include <string>
#include <vector>

#include "client/diagnosis/run_summary.h"
#include "trainer/evaluation.h"
#include "trainer/monitoring/event_file.h"

namespace millrace::trainer {

// "  evaluation on photos: accuracy 0.8710 (top-5 0.9950), loss 0.3, 77
// samples, 0.10 s"
std::string EvaluationLine(const Evaluation::Result& result,
                           const std::string& dataset);

std::vector<monitoring::Scalar> EvaluationScalars(
    const Evaluation::Result& result);

void AddTo(diagnosis::RunSummary& summary, const Evaluation::Result& result);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EVALUATION_REPORT_H_
