// Evaluates a model on a dataset of its own, or on a part of the training's
// dataset that training leaves out. Each sample is evaluated once; the samples
// are shared among the ranks.
//
// One thread; all ranks make the same calls. The caller owns the model and the
// loaders' options.
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

namespace millrace::trainer {

class Evaluation {
 public:
  struct Options {
    std::string dataset;         // for messages
    DataLoader::Options loader;  // with the spec; next_timeout is the time that
                                 // servers may be unreachable
    BatchReader::Options reader;
    optim::Precision precision;  // of the forward pass
  };
  struct Result {
    // Share of correct samples or pixels. Absent: the target has no classes, or
    // the model predicts none.
    std::optional<double> accuracy;
    // For targets of pixels: classes, or yes and no (bce_with_logits).
    std::optional<double> mean_iou;
    // Share of samples whose class is among the five largest outputs. Absent:
    // there are at most five classes.
    std::optional<double> top5;
    double loss = 0;  // mean
    uint64_t samples = 0;
    // Damaged samples that bad_samples ZERO left empty: not evaluated and not
    // among `samples`.
    uint64_t empty_rows = 0;
    double seconds = 0;
  };
  // Callbacks into the run.
  struct Hooks {
    // Not OK: the run must stop.
    std::function<absl::Status()> stopped;
    // A loader that a stop must close; nullptr when it is destroyed.
    std::function<void(DataLoader*)> open_loader;
    std::string place;  // for messages: the next place in training
  };

  // Opens the data once, so that a mistake is found now and not an epoch later.
  // InvalidArgument: samples or targets do not match those of `training`.
  static absl::StatusOr<std::unique_ptr<Evaluation>> Make(
      const Options& options, const std::string& training_dataset,
      const BatchReader& training);

  // `model` is in training mode before and after. All ranks get rank 0's
  // running statistics. Internal: samples are missing or came twice.
  absl::StatusOr<Result> Run(models::Classifier& model, losses::Loss& loss,
                             ddp::Communicator& ranks, torch::Device device,
                             const Hooks& hooks);

  const BatchReader& reader() const { return reader_; }
  // The spec as the servers resolved it.
  const PipelineSpec& pipeline() const { return pipeline_; }

 private:
  Evaluation(const Options& options, BatchReader reader, PipelineSpec pipeline)
      : options_(options),
        reader_(std::move(reader)),
        pipeline_(std::move(pipeline)) {}
  absl::StatusOr<std::unique_ptr<DataLoader>> Open(const Hooks& hooks);

  Options options_;
  // Its tensors may differ in type and layout from those of training.
  BatchReader reader_;
  PipelineSpec pipeline_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EVALUATION_H_
