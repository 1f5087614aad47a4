// A Column describes how one output of a batch is computed: the stored field,
// the stage that processes it, the mixers that change it, and the conversion to
// the wire format. It runs nothing itself: server/pipeline/row/row_filler.h
// does.
//
// Immutable once made; thread-safe.
//
//   MR_ASSIGN_OR_RETURN(Column column, MakeColumn(spec, output, field, ...));

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_COLUMN_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_COLUMN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/batch/row_format.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::pipeline {

// ImageStage::Create, or a fake of it.
using ImageStageFactory =
    std::function<absl::StatusOr<std::unique_ptr<ImageStage>>(
        const Field&, absl::Span<const PlacedTransform>,
        const ImageStageOptions&)>;

struct Column {
  int field = 0;                           // index into the schema
  std::unique_ptr<ImageStage> stage;       // null: the stored bytes
  uint64_t raw_bytes = 0;                  // of a sample before `format`
  std::optional<batch::RowFormat> format;  // absent: raw is as on the wire
  uint64_t bytes = 0;                      // of a row on the wire
  // Value of the raw bytes in a row without a sample. For a mask it is the fill
  // of its role, so that losses ignore the row as they ignore the area outside
  // an image.
  uint8_t empty = 0;

  // Bit i: mixer i of the pipeline
  // (server/pipeline/built_pipeline/batch_mixers.h) mixes it.
  uint64_t mixers = 0;
  // Above 0: the number of classes of a label that mixers make soft. The stored
  // value is the class, the raw value is float32 [classes].
  int64_t classes = 0;
  // For a mask or boxes that transforms move: their image, and the stage that
  // reads the image's size if the image's own stage has not run before. -1 and
  // null for other columns.
  int image_field = -1;
  std::unique_ptr<ImageStage> image_size;

  // Of an image, for CutMix.
  int64_t channels = 0;
  int64_t row_stride = 0;

  // Whether a row without a sample holds something else than zeros (or, of a
  // class, than the -100 of the layout).
  bool EmptyIsNotZero() const {
    return empty != 0 || (format && format->moves_zero());
  }

  // Where its raw bytes and, of a soft label, its class lie in a staging slot.
  uint64_t staging_offset = 0;
  uint64_t class_offset = 0;
};

struct MadeColumn {
  Column column;
  TensorSpec tensor;  // as Open describes it
  // Rough, to gather rows into tasks.
  bool runs_images = false;
  // Of a mask or boxes that transforms move: the name of their image, whose
  // index and size stage are still to be set.
  std::string image;
};

// `resolved` comes from ResolveSpec(); `index` is that of `field` in the
// schema. Errors as TraceField() and `make_stage`; Internal when plan and stage
// disagree.
absl::StatusOr<MadeColumn> MakeColumn(const PipelineSpec& resolved,
                                      const Output& output, const Field& field,
                                      int index,
                                      const ImageStageFactory& make_stage);

// A stage whose ReadSize() gives the size of the image in `field`, as the
// transforms of the spec see it. Errors as `make_stage`.
absl::StatusOr<std::unique_ptr<ImageStage>> MakeSizeStage(
    const PipelineSpec& resolved, const Field& field,
    const ImageStageFactory& make_stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_COLUMN_H_
