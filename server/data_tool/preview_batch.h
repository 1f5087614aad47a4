// PreviewBatch builds one batch of a pipeline with the engine, as the training
// program receives it, and shows each sample as stored and after the pipeline,
// with masks, boxes, labels and the random choices.
//
// Belongs to one thread; starts and joins the engine's own.
//
//   MR_ASSIGN_OR_RETURN(auto batch,
//                       PreviewBatch::Make({source}, spec, options));
//   MR_ASSIGN_OR_RETURN(std::vector<SheetPair> pairs, batch->Pairs({}));

#ifndef MILLRACE_SERVER_DATA_TOOL_PREVIEW_BATCH_H_
#define MILLRACE_SERVER_DATA_TOOL_PREVIEW_BATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/augment/parameter_log.h"
#include "server/data_tool/contact_sheet.h"
#include "server/operators/operators.h"
#include "server/storage/record_source.h"

namespace millrace::data_tool {

struct PreviewOptions {
  uint64_t epoch = 0;
  uint64_t step = 0;
  // Rows of the batch that are shown, from the first.
  int64_t samples = 16;
  int cell = 224;  // pixels of a picture's room: stored images are shrunk to it
  // The image to show; empty: the first output that is one.
  std::string field;
  const operators::Operators* operators = nullptr;  // must outlive the batch
};

class PreviewBatch {
 public:
  // A batch size of 0 becomes `samples`, or all there are. InvalidArgument,
  // NotFound, Unimplemented: as Engine::Open; OutOfRange: no such step;
  // DataLoss: a bad sample under the policy FAIL.
  // `datasets`: one for each name among the spec's sources, in the order in
  // which they first come; with one source its name does not matter.
  static absl::StatusOr<std::unique_ptr<PreviewBatch>> Make(
      std::vector<std::shared_ptr<const storage::RecordSource>> datasets,
      PipelineSpec spec, const PreviewOptions& options);

  virtual ~PreviewBatch() = default;

  virtual const PipelineSpec& resolved_spec() const = 0;
  virtual uint64_t steps_per_epoch() const = 0;
  virtual uint64_t payload_xxh3() const = 0;
  // Rows that are shown.
  virtual int64_t rows() const = 0;
  // Of a row; -1: padding. A bad sample that was left empty has its index.
  virtual int64_t sample_index(int64_t row) const = 0;
  // Of a row, index into the spec's sources; -1: padding.
  virtual int32_t source(int64_t row) const = 0;
  // False: padding, or a bad sample that was left empty.
  virtual bool valid(int64_t row) const = 0;
  // "3 cat", "cat 0.71 dog 0.29"; empty without a label.
  virtual std::string label(int64_t row) const = 0;

  // The row of the batch, shown or not, that mix_up and cut_mix mix with this
  // one (server/pipeline/built_pipeline/batch_mixers.h); -1: none.
  virtual int64_t partner(int64_t row) const = 0;

  // The field whose pictures Pairs() shows. InvalidArgument: no output is an
  // image.
  virtual absl::StatusOr<std::string> image_field() const = 0;

  // Of the rows that are shown: pictures, boxes and captions, without titles
  // and lines. `keys` has the keys of samples by row: the part of the stored
  // image that the result shows is framed where it has one. Errors as
  // image_field().
  virtual absl::StatusOr<std::vector<SheetPair>> Pairs(
      const std::map<int64_t, uint64_t>& keys) const = 0;

  // The random choices for the batch and all its rows, see ExplainBatch().
  // Internal: the explained bytes differ from those of the batch.
  virtual absl::Status Explain(augment::ParameterLog& log) const = 0;
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PREVIEW_BATCH_H_
