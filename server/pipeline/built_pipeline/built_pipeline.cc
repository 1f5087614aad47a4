#include "server/pipeline/built_pipeline/built_pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "server/plan/content_revision.h"
#include "server/plan/find_field.h"

namespace millrace::pipeline {
namespace {

// Rough costs in nanoseconds; used only to group rows into tasks.
constexpr uint64_t kTaskNanos = 200'000;
constexpr uint64_t kRowNanos = 300;
constexpr uint64_t kBytesPerNano = 4;
constexpr uint64_t kImageNanos = 300'000;

int IndexOf(const DatasetInfo& info, const std::string& name) {
  const int index = plan::FieldIndex(info, name);
  MR_CHECK(index >= 0) << "a resolved spec names field " << name
                       << ", which is not in the dataset";
  return index;
}

// ResolveSpec() has checked this before, with a more detailed message.
absl::Status CheckSame(const std::vector<TensorSpec>& first,
                       const std::vector<TensorSpec>& other,
                       const std::string& dataset) {
  for (size_t i = 0; i < first.size(); ++i) {
    TensorSpec a = first[i];
    TensorSpec b = other[i];
    a.clear_class_names();  // some sources may not know them
    b.clear_class_names();
    if (a.SerializeAsString() == b.SerializeAsString()) continue;
    return absl::InternalError(
        absl::StrCat("dataset ", dataset, " has a different tensor ", a.name(),
                     " from the first source; this is a bug of Millrace: "
                     "please report it with the spec"));
  }
  return absl::OkStatus();
}

}  // namespace

BuiltPipeline::BuiltPipeline(plan::Plan plan, batch::BatchLayout layout,
                             BatchMixers mixers,
                             std::vector<BuiltSource> sources,
                             BatchMemoryLimit limit)
    : plan_(std::move(plan)),
      layout_(std::move(layout)),
      limit_(std::move(limit)),
      sources_(std::move(sources)),
      mixers_(std::move(mixers)),
      pace_(WaitOf(sources_)) {}

storage::ReadWait BuiltPipeline::WaitOf(
    const std::vector<BuiltSource>& sources) {
  storage::ReadWait slowest = storage::ReadWait::kNever;
  for (const BuiltSource& source : sources) {
    slowest = std::max(slowest, source.dataset.source->read_wait());
  }
  return slowest;
}

void BuiltPipeline::OrderColumns(BuiltSource& source) {
  const std::vector<Column>& columns = source.columns;
  const auto append = [&source](auto wanted) {
    for (int i = 0; i < static_cast<int>(source.columns.size()); ++i) {
      if (wanted(source.columns[i])) source.order.push_back(i);
    }
  };
  // Each image comes first, then the fields that depend on its size.
  std::set<int> images;
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    const Column& image = columns[i];
    if (image.image_field >= 0) continue;
    source.order.push_back(i);
    if (image.stage == nullptr || !images.insert(image.field).second) continue;
    append([&](const Column& c) { return c.image_field == image.field; });
  }
  // Then the fields that depend on images that are not outputs.
  std::set<int> hidden;
  for (const Column& column : columns) {
    if (column.image_field >= 0 && !images.contains(column.image_field)) {
      hidden.insert(column.image_field);
    }
  }
  for (int field : hidden) {
    append([&](const Column& c) { return c.image_field == field; });
  }
}

void BuiltPipeline::PlaceStaging() {
  const bool mixes = !mixers_.empty();
  auto place = [this](uint64_t bytes) {
    const uint64_t at = staging_.slot_bytes;
    staging_.slot_bytes += (bytes + 63) / 64 * 64;
    return at;
  };
  uint64_t format_bytes = 0;
  for (Column& column : sources_[0].columns) {
    // A partner row of another rank has no place in the batch.
    if (mixes || (column.format && column.stage != nullptr) ||
        (column.format && column.EmptyIsNotZero())) {
      column.staging_offset = place(column.raw_bytes);
    }
    if (column.classes > 0) column.class_offset = place(sizeof(int64_t));
    if (!column.format) continue;
    // A partner's wire row is written to scratch memory, only to check the
    // values.
    const uint64_t bytes = (column.format->scratch_bytes() + 63) / 64 * 64 +
                           (mixes ? column.bytes : 0);
    format_bytes = std::max(format_bytes, bytes);
  }
  for (BuiltSource& source : sources_) {
    for (size_t i = 0; i < source.columns.size(); ++i) {
      source.columns[i].staging_offset = columns()[i].staging_offset;
      source.columns[i].class_offset = columns()[i].class_offset;
    }
  }
  staging_.format_bytes = format_bytes;
  staging_.bytes = staging_.slot_bytes * (mixes ? 2 : 1) + format_bytes;
}

absl::Status BuiltPipeline::MakeColumns(const PipelineSpec& resolved,
                                        const BatchMixers& mixers,
                                        const ImageStageFactory& make_stage,
                                        BuiltSource& source,
                                        std::vector<TensorSpec>& tensors,
                                        uint64_t& row_nanos) {
  const DatasetInfo& info = *source.dataset.info;
  for (const Output& output : resolved.outputs()) {
    const int index = IndexOf(info, output.field());
    MR_ASSIGN_OR_RETURN(MadeColumn made, MakeColumn(resolved, output,
                                                    info.schema().fields(index),
                                                    index, make_stage));
    made.column.mixers = mixers.Mixing(output.field());
    if (made.runs_images) row_nanos += kImageNanos;
    if (!made.image.empty()) {
      Column& column = made.column;
      column.image_field = IndexOf(info, made.image);
      MR_ASSIGN_OR_RETURN(
          column.image_size,
          MakeSizeStage(resolved, info.schema().fields(column.image_field),
                        make_stage));
    }
    source.columns.push_back(std::move(made.column));
    tensors.push_back(std::move(made.tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const BuiltPipeline>> BuiltPipeline::Build(
    const PipelineSpec& resolved, std::vector<Dataset> datasets,
    BatchMemoryLimit limit, const ImageStageFactory& make_stage,
    absl::string_view decoder_digest) {
  std::vector<const DatasetInfo*> infos;
  for (const Dataset& dataset : datasets) infos.push_back(dataset.info);
  MR_ASSIGN_OR_RETURN(plan::Plan plan,
                      plan::Plan::Create(resolved, infos, decoder_digest));

  MR_ASSIGN_OR_RETURN(BatchMixers mixers,
                      BatchMixers::Read(resolved, *infos[0]));

  std::vector<BuiltSource> sources;
  std::vector<TensorSpec> tensors;
  uint64_t row_nanos = 0;  // of the slowest source
  for (Dataset& dataset : datasets) {
    BuiltSource& source = sources.emplace_back();
    source.dataset = std::move(dataset);
    std::vector<TensorSpec> made;
    uint64_t nanos = kRowNanos;
    MR_RETURN_IF_ERROR(
        MakeColumns(resolved, mixers, make_stage, source, made, nanos));
    row_nanos = std::max(row_nanos, nanos);
    source.used_fields.resize(source.dataset.info->schema().fields_size());
    for (const Column& column : source.columns) {
      source.used_fields[column.field] = true;
      if (column.image_field >= 0) {
        source.used_fields[column.image_field] = true;
      }
    }
    MR_RETURN_IF_ERROR(source.dataset.source->CheckFields(source.used_fields));
    if (sources.size() == 1) {
      tensors = std::move(made);
      continue;
    }
    MR_RETURN_IF_ERROR(CheckSame(tensors, made, source.dataset.info->name()));
  }
  MR_ASSIGN_OR_RETURN(batch::BatchLayout layout,
                      batch::BatchLayout::Create(tensors, sources.size() > 1));
  for (BuiltSource& source : sources) {
    for (size_t i = 0; i < source.columns.size(); ++i) {
      source.columns[i].bytes = layout.row_bytes(static_cast<int>(i));
    }
  }
  row_nanos += layout.row_bytes() / kBytesPerNano;

  std::shared_ptr<BuiltPipeline> pipeline(
      new BuiltPipeline(std::move(plan), std::move(layout), std::move(mixers),
                        std::move(sources), std::move(limit)));
  for (BuiltSource& source : pipeline->sources_) {
    for (const Column& column : source.columns) {
      pipeline->has_stages_ |= column.stage != nullptr;
      if (column.stage == nullptr) continue;
      pipeline->operator_bytes_ =
          std::max(pipeline->operator_bytes_, column.stage->kept_bytes());
    }
    OrderColumns(source);
  }
  pipeline->PlaceStaging();
  pipeline->rows_per_task_ = std::max<uint64_t>(1, kTaskNanos / row_nanos);
  const Synthetic& synthetic = resolved.sources(0).synthetic();
  if (synthetic.ready_batches() > 0) {
    ReadyRecipe recipe;
    recipe.seed = synthetic.seed();
    recipe.slots = synthetic.ready_batches();
    recipe.tensors = tensors;
    pipeline->ready_ =
        std::make_unique<ReadyBatches>(std::move(recipe), &pipeline->layout_);
  }
  pipeline->Describe(tensors);
  return pipeline;
}

absl::Status BuiltPipeline::OfFiles(uint32_t source,
                                    absl::Status status) const {
  if (status.ok()) return status;
  ErrorDetail detail = MakeErrorDetail("storage");
  detail.set_dataset(info(source).name());
  return WithErrorDetail(std::move(status), detail);
}

absl::Status BuiltPipeline::CheckFiles() const {
  for (int i = 0; i < sources(); ++i) {
    MR_RETURN_IF_ERROR(OfFiles(i, source(i).CheckFiles()));
  }
  return absl::OkStatus();
}

absl::Status BuiltPipeline::CheckFilesOf(
    const batch::BatchLayout::Placed& placed, const uint8_t* payload,
    bool partners) const {
  if (partners) return CheckFiles();
  for (int i = 0; i < sources(); ++i) {
    MR_RETURN_IF_ERROR(
        OfFiles(i, source(i).CheckFilesOf(placed.Samples(payload, i))));
  }
  return absl::OkStatus();
}

void BuiltPipeline::Describe(const std::vector<TensorSpec>& tensors) {
  OpenResponse& description = description_;
  *description.mutable_resolved_spec() = plan_.spec();
  description.set_plan_hash(plan_.hash());
  for (const TensorSpec& tensor : tensors) {
    *description.add_tensors() = tensor;
  }
  if (sources() > 1) *description.add_tensors() = batch::SourceIndexSpec();
  *description.add_tensors() = batch::SampleIndexSpec();
  *description.add_tensors() = batch::ValidSpec();
  description.set_steps_per_epoch(plan_.steps().steps());
  description.set_samples_per_epoch(plan_.steps().samples());
  description.set_dropped_per_epoch(plan_.steps().dropped());
  description.set_fingerprint(plan_.fingerprint());
  description.set_content_revision(plan::kContentRevision);
  description.set_decoder_digest(plan_.decoder_digest());
  if (sources() == 1 && !plan_.schedule()) return;
  for (int i = 0; i < sources(); ++i) {
    SourcePlan& source = *description.add_sources();
    source.set_dataset(plan_.spec().sources(i).dataset());
    source.set_samples(plan_.samples(i));
    source.set_samples_per_epoch(plan_.per_epoch(i));
    if (plan_.schedule()) source.set_slots(plan_.schedule()->slots(i));
    source.set_fingerprint(info(i).fingerprint());
  }
}

absl::StatusOr<BatchMemory> BuiltPipeline::batch_memory(
    uint32_t world_size) const {
  MR_RETURN_IF_ERROR(plan_.steps().CheckWorld(world_size));
  BatchMemory memory;
  memory.rows = plan_.steps().MaxRows(world_size);
  memory.row_bytes = layout_.row_bytes();
  memory.payload = layout_.PayloadBytes(memory.rows);
  memory.beside = ReservedBytes(memory.rows) - memory.payload;
  memory.budget = limit_.bytes;
  memory.budget_arithmetic = limit_.arithmetic;
  return memory;
}

std::string BuiltPipeline::Advice(
    absl::FunctionRef<bool(const BatchMemoryLimit&)> fits) const {
  constexpr char kAny[] = "give the server a larger --memory_budget";
  if (limit_.with_budget == nullptr) return kAny;
  const uint64_t budget = LargerBudget(
      limit_.whole_budget,
      [&](uint64_t bytes) { return fits(limit_.with_budget(bytes)); });
  if (budget == 0) return "no --memory_budget is large enough";
  return absl::StrCat("give the server --memory_budget=", budget >> 20, "MiB");
}

absl::StatusOr<uint64_t> BuiltPipeline::MaxPayloadBytes(
    uint32_t world_size) const {
  MR_RETURN_IF_ERROR(plan_.steps().CheckWorld(world_size));
  const uint64_t rows = plan_.steps().MaxRows(world_size);
  const uint64_t bytes = layout_.PayloadBytes(rows);
  // Another server may have the memory. So this is not a mistake of the
  // request, which would end the job, but a reason for the client to leave this
  // server out.
  const auto fits = [&](const BatchMemoryLimit& limit) {
    return ReservedBytes(rows, limit) <= limit.bytes;
  };
  const auto ready_fit = [&](const BatchMemoryLimit& limit) {
    return ready_->Bytes(rows) <= limit.ready_bytes() &&
           ready_->Bytes(rows) + ReservedBytes(rows, limit) <= limit.bytes;
  };
  if (ready_ != nullptr && !ready_fit(limit_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the ready batches do not fit into the server's memory: ",
        plan_.spec().sources(0).synthetic().ready_batches(), " of ",
        FormatExactByteSize(bytes),
        " must fit into half of the memory for batches and leave room "
        "for one batch, but ",
        limit_.arithmetic,
        ": lower ready_batches or batch_size, use more ranks, or ",
        Advice(ready_fit)));
  }
  if (!fits(limit_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a batch does not fit into the server's memory: batch_size ",
        plan_.spec().batch_size(), " / world size ", world_size, " = ",
        CountText(rows, "row"), " of ", layout_.row_bytes(),
        " bytes = ", FormatByteSize(bytes), " with alignment",
        staging_.bytes == 0
            ? ""
            : absl::StrCat(
                  " and ",
                  CountText(limit_.threads, "thread needs", "threads need"),
                  " ", FormatByteSize(staging_.bytes), " each to build it"),
        ", but ", limit_.arithmetic, ": lower batch_size, use more ranks, or ",
        Advice(fits)));
  }
  return bytes;
}

}  // namespace millrace::pipeline
