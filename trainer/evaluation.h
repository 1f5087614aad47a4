// Evaluation judges a model on a dataset of its own, or on a part of the
// training's that training leaves out, shared out over the ranks, every sample
// once.
//
// One thread; all ranks make the same calls. The model and the loaders' options
// are the caller's.
//
//   MR_ASSIGN_OR_RETURN(auto evaluation,
//                       Evaluation::Make(options, name, reader));
//   MR_ASSIGN_OR_RETURN(Evaluation::Result result, evaluation->Run(model,
//   ...));

#ifndef MILLRACE_TRAINER_EVALUATION_H_
#define MILLRACE_TRAINER_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/loader.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "trainer/batch_reader.h"
#include "trainer/ddp/communicator.h"
#include "trainer/losses/loss.h"
#include "trainer/models/model.h"
#include "trainer/optim/precision.h"

namespace millrace {

class Evaluation {
 public:
  struct Options {
    std::string dataset;         // for messages
    DataLoader::Options loader;  // with the spec; next_timeout is what servers
                                 // may be away for
    BatchReader::Options reader;
    Precision precision;  // of the forward pass
  };
  struct Result {
    // Share of the samples, or of the pixels, that are right. Absent: the
    // target has no classes, or the model says none.
    std::optional<double> accuracy;
    // Of targets of pixels that are classes, or yes and no (bce_with_logits).
    std::optional<double> mean_iou;
    // The class is among the five likeliest; absent: there are no more than
    // five.
    std::optional<double> top5;
    double loss = 0;  // mean
    uint64_t samples = 0;
    // Damaged ones that bad_samples ZERO left empty: not judged, and not among
    // `samples`.
    uint64_t empty_rows = 0;
    double seconds = 0;
  };
  // What the run has to say in between.
  struct Hooks {
    // Not OK: the run was told to stop.
    std::function<absl::Status()> stopped;
    // A loader that a stop has to close, and nullptr when it is gone.
    std::function<void(DataLoader*)> open_loader;
    std::string place;  // for messages: what comes next in training
  };

  // Opens the data once, so that a mistake in it is not found an epoch later.
  // InvalidArgument: its samples or targets are not those of `training`.
  static absl::StatusOr<std::unique_ptr<Evaluation>> Make(
      const Options& options, const std::string& training_dataset,
      const BatchReader& training);

  // `model` is in training mode before and after. Its running statistics become
  // rank 0's on all ranks. Internal: samples are missing or came twice.
  absl::StatusOr<Result> Run(Classifier& model, Loss& loss, Communicator& ranks,
                             torch::Device device, const Hooks& hooks);

  const BatchReader& reader() const { return reader_; }
  // As the servers resolved it.
  const PipelineSpec& pipeline() const { return pipeline_; }

 private:
  Evaluation(const Options& options, BatchReader reader, PipelineSpec pipeline)
      : options_(options),
        reader_(std::move(reader)),
        pipeline_(std::move(pipeline)) {}
  absl::StatusOr<std::unique_ptr<DataLoader>> Open(const Hooks& hooks);

  Options options_;
  // Tensors may have other types and layouts than those of training.
  BatchReader reader_;
  PipelineSpec pipeline_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_EVALUATION_H_
