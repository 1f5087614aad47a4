// Divides a pipeline into its deterministic beginning, which
// `millrace-data pack --apply` runs once, and the pipeline that training runs
// on the result.
//
// Both give the same batches together as the whole pipeline gives on the
// original samples, bit by bit, as long as the result is stored without loss
// and decode_image has `mode: EXACT`. The random draws of a transform depend on
// its place in the list. Therefore the remainder keeps the places: a flip that
// never happens (p: 0) stands for a transform that has been applied.
//
// Pure functions.
//
//   MR_ASSIGN_OR_RETURN(PipelineBeginning beginning,
//                       DividePipeline(spec, info, StoredAs::kPng));

#ifndef MILLRACE_SERVER_DATA_TOOL_PIPELINE_BEGINNING_H_
#define MILLRACE_SERVER_DATA_TOOL_PIPELINE_BEGINNING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::data_tool {

// What an image becomes that transforms were applied to. Masks become PNG in
// the place of JPEG.
enum class StoredAs {
  kPng,
  kJpeg,
  kTensor,  // uint8 [height, width, channels]: all images have one size
};

struct PipelineBeginning {
  // Transforms and field roles alone, defaults written out.
  PipelineSpec applied;
  // The pipeline for training on the result.
  PipelineSpec remainder;
  // Why it ends before the pipeline: "transforms[2].random_crop is random".
  // Empty: every transform is applied.
  std::string ends_at;
};

// `info` describes the samples. InvalidArgument, NotFound, Unimplemented: the
// pipeline has a mistake, does not fit the samples, or has no transform at its
// beginning that can be applied.
absl::StatusOr<PipelineBeginning> DividePipeline(const PipelineSpec& spec,
                                                 const DatasetInfo& info,
                                                 StoredAs stored_as);

// The line of DatasetInfo::prepared.
std::string AppliedLine(const PipelineSpec& applied, StoredAs stored_as,
                        int quality);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PIPELINE_BEGINNING_H_
