#include "trainer/evaluation.h"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/prefetch/retry_schedules.h"
#include "common/clean_text.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "trainer/class_loss.h"
#include "trainer/ddp/agree.h"
#include "trainer/pixel_scores.h"
#include "trainer/torch_error.h"

namespace millrace::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// Classes of top-5 accuracy.
constexpr int64_t kTop = 5;
// Max bytes of a class name in an error.
constexpr size_t kMaxName = 200;

// The rows of both that hold a sample.
std::pair<torch::Tensor, torch::Tensor> OfValidRows(
    const torch::Tensor& outputs, const torch::Tensor& target,
    const Batch& batch) {
  if (batch.local_valid == batch.rows || !batch.has("valid")) {
    return {outputs, target};
  }
  const torch::Tensor rows = batch.tensor("valid").nonzero().squeeze(1);
  return {outputs.index_select(0, rows), target.index_select(0, rows)};
}

// A label is the number of a class. Two datasets that were packed with
// different lists of classes may give one number to two classes.
absl::Status SameClassNames(const std::string& training_dataset,
                            const BatchReader& training,
                            const std::string& dataset,
                            const BatchReader& evaluation) {
  const std::vector<std::string>& mine = training.class_names();
  const std::vector<std::string>& yours = evaluation.class_names();
  const size_t named = std::min(mine.size(), yours.size());
  for (size_t i = 0; i < named; ++i) {
    if (mine[i] == yours[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "class ", i, " is ", CleanText(mine[i], kMaxName), " in the dataset ",
        training_dataset, ", but ", CleanText(yours[i], kMaxName), " in ",
        dataset,
        "; one label would mean two classes; pack both from the same class "
        "folders "
        "(an empty folder for a class without images, and --skip_bad)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Make(
    const Options& options, const std::string& training_dataset,
    const BatchReader& training) {
  DataLoader::Options small = options.loader;
  small.window = 2;  // the smallest
  MR_ASSIGN_OR_RETURN(auto loader, DataLoader::Open(small));
  const OpenResponse& plan = loader->plan();
  MR_ASSIGN_OR_RETURN(BatchReader reader,
                      BatchReader::Make(plan, options.reader));
  if (reader.classes() != training.classes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the dataset ", training_dataset, " has ", training.classes(),
        " classes, but ", options.dataset, " has ", reader.classes(),
        "; evaluate on data with the same classes"));
  }
  MR_RETURN_IF_ERROR(
      SameClassNames(training_dataset, training, options.dataset, reader));
  // A network over pixels may be evaluated on images of another size.
  const bool of_pixels =
      reader.form().of_pixels() && training.form().of_pixels();
  if (of_pixels ? reader.form().channels != training.form().channels
                : reader.form().outputs != training.form().outputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("the target of the dataset ", training_dataset, " has ",
                     training.form().outputs, " values a sample, but that of ",
                     options.dataset, " has ", reader.form().outputs,
                     "; evaluate on data with the same target"));
  }
  if (reader.shape().channels != training.shape().channels) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the samples of training have ", training.shape().channels,
        " channels, but those of the evaluation have ", reader.shape().channels,
        "; choose presets with the same channels"));
  }
  Options whole = options;
  whole.loader.expected_plan_hash = plan.plan_hash();
  whole.loader.expected_fingerprint = plan.fingerprint();
  return std::unique_ptr<Evaluation>(
      new Evaluation(whole, std::move(reader), plan.resolved_spec()));
}

// The same outage is tolerated between epochs as within one.
absl::StatusOr<std::unique_ptr<DataLoader>> Evaluation::Open(
    const Hooks& hooks) {
  const SteadyTime deadline = SteadyDeadline(options_.loader.next_timeout);
  while (true) {
    // A stop signal cannot end the opening, so each attempt is short.
    MR_RETURN_IF_ERROR(hooks.stopped());
    absl::StatusOr<std::unique_ptr<DataLoader>> loader =
        DataLoader::Open(options_.loader);
    if (loader.ok() || SteadyTime::clock::now() >= deadline ||
        (!absl::IsUnavailable(loader.status()) &&
         !absl::IsDeadlineExceeded(loader.status()))) {
      return loader;
    }
    absl::SleepFor(prefetch::kQuestionRetry.Delay());
  }
}

absl::StatusOr<Evaluation::Result> Evaluation::Run(models::Classifier& model,
                                                   losses::Loss& loss,
                                                   ddp::Communicator& ranks,
                                                   torch::Device device,
                                                   const Hooks& hooks) {
  const Clock::time_point start = Clock::now();
  absl::StatusOr<std::unique_ptr<DataLoader>> opened = Open(hooks);
  MR_RETURN_IF_ERROR(ddp::Agree(opened.status(), ranks, hooks.place));
  const std::unique_ptr<DataLoader> loader = *std::move(opened);
  hooks.open_loader(loader.get());
  const absl::Cleanup forget_loader = [&hooks] { hooks.open_loader(nullptr); };
  // Running statistics differ between ranks: all ranks evaluate rank 0's model.
  MR_RETURN_IF_ERROR(ranks.Broadcast(model.buffers()));
  // correct, loss, samples, correct in the top 5
  torch::Tensor sums =
      at::zeros({4}, torch::TensorOptions(torch::kDouble).device(device));
  const losses::TargetForm& form = reader_.form();
  bool judged = form.judges_classes && !form.of_pixels();
  // A user's loss gives "yes or no" no meaning.
  const bool yes_no = form.kind == losses::TargetForm::kValues &&
                      options_.reader.loss == losses::LossKind::kBceWithLogits;
  bool pixels_judged =
      form.of_pixels() && form.channels > 0 &&
      (form.kind == losses::TargetForm::kPixelClasses || yes_no);
  PixelScores pixels(std::max<int64_t>(form.channels, 1), device);
  absl::Status evaluated;
  uint64_t step = 0;  // of the evaluation, for messages
  try {
    torch::NoGradGuard no_grad;
    model.eval();
    while (true) {
      absl::StatusOr<Batch> batch = loader->Next();
      evaluated = hooks.stopped();
      if (!evaluated.ok() || absl::IsOutOfRange(batch.status())) break;
      evaluated = batch.status();
      if (!evaluated.ok()) break;
      step = batch->position.step;
      if (batch->rows == 0)
        continue;  // all rows of this batch belong to other ranks
      const torch::Tensor logits = options_.precision.Run(
          [&] { return model.forward(reader_.Input(*batch)); });
      const torch::Tensor target = reader_.Target(*batch);
      // A user's model may return another type for a user's loss.
      judged =
          judged && logits.dim() == 2 && logits.size(1) == reader_.classes();
      if (judged) {
        const torch::Tensor masked = Masked(target, *batch);
        sums[0] += CountCorrect(logits, masked);
        if (reader_.classes() > kTop) {
          sums[3] += CountCorrect(logits, masked, kTop);
        }
      }
      // A model whose outputs are flat has no pixels.
      pixels_judged =
          pixels_judged && logits.dim() == 4 && logits.size(1) == form.channels;
      if (pixels_judged && yes_no) {
        const auto [said, wanted] = OfValidRows(logits, target, *batch);
        pixels.AddYesNo(said, wanted, reader_.ignore_value());
      } else if (pixels_judged) {
        pixels.AddClasses(logits, Masked(target, *batch));
      }
      sums[1] += loss.Sum(logits, target, *batch, /*label_smoothing=*/0);
      sums[2] += static_cast<double>(batch->local_valid);
    }
    model.train();
  } catch (const LabelOutsideClasses& error) {
    return reader_.LabelError(
        error,
        absl::StrCat("evaluating on ", options_.dataset, ", step ", step + 1));
  } catch (const losses::TargetError& error) {
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat("evaluating on ", options_.dataset, ": ", error.what())));
  } catch (const std::exception& error) {
    return FromTorch(error, absl::StrCat("evaluating on ", options_.dataset));
  }
  MR_RETURN_IF_ERROR(ddp::Agree(std::move(evaluated), ranks, hooks.place));
  sums = sums.cpu();
  MR_RETURN_IF_ERROR(ranks.Sum(sums));
  torch::Tensor counts = pixels.counts().cpu();
  MR_RETURN_IF_ERROR(ranks.Sum(counts));
  const auto* sum = sums.data_ptr<double>();
  const double expected =
      static_cast<double>(loader->plan().samples_per_epoch());
  const bool leaves_empty =
      pipeline_.bad_samples().action() == BadSamplePolicy::ZERO;
  if (sum[2] > expected || (sum[2] != expected && !leaves_empty)) {
    return absl::InternalError(absl::StrCat(
        "evaluated ", static_cast<uint64_t>(sum[2]), " samples of ",
        loader->plan().samples_per_epoch(), " in ", options_.dataset,
        "; every sample must come exactly once"));
  }
  Result result;
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (judged) {
    result.accuracy = sum[0] / sum[2];
    if (reader_.classes() > kTop) result.top5 = sum[3] / sum[2];
  }
  if (pixels_judged) {
    const PixelScores::Result scores = PixelScores::Read(counts);
    result.accuracy = scores.accuracy;
    result.mean_iou = scores.mean_iou;
  }
  result.loss = sum[1] / sum[2];
  result.samples = static_cast<uint64_t>(sum[2]);
  result.empty_rows = static_cast<uint64_t>(expected - sum[2]);
  return result;
}

}  // namespace millrace::trainer
