#include "server/pipeline/row/row_filler.h"

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/bad_sample_hint.h"
#include "proto/error_detail.h"
#include "server/augment/mix_pixels.h"
#include "server/storage/sample_files.h"

namespace millrace::pipeline {
namespace {

bool IsBadSample(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDataLoss;
}

absl::Status BadStorage(std::string what) {
  return WithErrorDetail(absl::DataLossError(what), MakeErrorDetail("storage"));
}

}  // namespace

BatchSlice SliceOf(const BuiltPipeline& pipeline, uint64_t epoch, uint64_t step,
                   const plan::StepRows& rows,
                   const batch::BatchLayout::Placed& placed, uint8_t* payload) {
  BatchSlice slice;
  slice.global_rows = pipeline.plan().spec().batch_size();
  slice.step_first = step * slice.global_rows;
  slice.first = rows.first;
  slice.units.rows = rows.rows;
  slice.units.pairs = !pipeline.mixers().empty();
  slice.units.odd =
      slice.units.pairs && (slice.first - slice.step_first) % 2 != 0;
  slice.mix = pipeline.mixers().Draw(epoch, step);
  slice.placed = &placed;
  slice.payload = payload;
  return slice;
}

absl::Status RowFiller::UseSource(uint32_t source) {
  if (reader_ != nullptr && source == source_) return absl::OkStatus();
  source_ = source;
  reader_ = nullptr;
  auto reader = worker_.ReaderOf(pipeline_.shared_source(source));
  if (!reader.ok()) return Located(reader.status(), "storage", nullptr, -1);
  reader_ = *reader;
  absl::Status used = reader_->UseFields(pipeline_.used_fields(source));
  if (used.ok()) return used;
  return Located(std::move(used), "storage", nullptr, -1);
}

absl::Status RowFiller::Begin() {
  MR_RETURN_IF_ERROR(UseSource(0));
  if (const uint64_t bytes = pipeline_.staging().bytes; bytes > 0) {
    staging_ = worker_.staging().Reserve(bytes);
    if (staging_ == nullptr) {
      return WithErrorDetail(absl::ResourceExhaustedError(absl::StrCat(
                                 "no memory for ", FormatByteSize(bytes),
                                 " of samples that are being processed")),
                             MakeErrorDetail("batch"));
    }
  }
  return absl::OkStatus();
}

absl::Status RowFiller::Fill(uint64_t unit) {
  const uint64_t bad_samples = bad_samples_;
  const uint64_t emptied_rows = emptied_rows_;
  absl::Status status = FillUnit(unit);
  if (worker_.large_images().wanted > 0) {
    // The bad samples are counted again when the rows are filled again.
    bad_samples_ = bad_samples;
    emptied_rows_ = emptied_rows;
  }
  return status;
}

absl::Status RowFiller::FillUnit(uint64_t unit) {
  const RowUnits& units = slice_.units;
  const uint64_t begin = units.begin(unit);
  if (!units.pairs) {
    const Place place = {.row = begin};
    MR_ASSIGN_OR_RETURN(const bool loaded, Load(place, slice_.first + begin));
    if (loaded) Finish(place, nullptr);
    return absl::OkStatus();
  }
  const uint64_t end = units.end(unit);
  // The positions of the pair in the global batch.
  const uint64_t first = (slice_.first - slice_.step_first + begin) & ~1ull;
  const uint64_t of_row_0 = slice_.first - slice_.step_first;
  Place places[2];
  bool loaded[2] = {};
  for (int i = 0; i < 2; ++i) {
    const uint64_t place = first + i;
    places[i].slot = i;
    places[i].own = place >= of_row_0 + begin && place < of_row_0 + end;
    if (!places[i].own) continue;
    places[i].row = place - of_row_0;
    MR_ASSIGN_OR_RETURN(loaded[i], Load(places[i], slice_.step_first + place));
  }
  const bool mixes = slice_.mix.kind != augment::BatchMix::NONE;
  for (int i = 0; i < 2; ++i) {
    if (places[i].own || !mixes || !loaded[1 - i]) continue;
    if (first + i >= slice_.global_rows) continue;
    MR_ASSIGN_OR_RETURN(loaded[i],
                        Load(places[i], slice_.step_first + first + i));
  }
  const bool mixed = mixes && loaded[0] && loaded[1];
  if (mixed) Mix(places[0], places[1]);
  for (int i = 0; i < 2; ++i) {
    if (!places[i].own || !loaded[i]) continue;
    Finish(places[i], mixed ? &places[1 - i] : nullptr);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RowFiller::Load(const Place& place, uint64_t position) {
  const plan::SampleRef ref = epoch_.At(position);
  if (!ref.valid) {
    Empty(place, /*sample_index=*/-1, /*source=*/-1);
    return false;
  }
  absl::Status status =
      LoadFrom(ref, place, ahead_ == nullptr ? nullptr : ahead_->At(position));
  if (status.ok()) return true;
  if (!IsBadSample(status)) return status;
  NoteBadSample(status, place);
  switch (pipeline_.plan().spec().bad_samples().action()) {
    case BadSamplePolicy::ZERO:
      // The index stays, because it names the missing sample.
      Empty(place, ref.index, static_cast<int32_t>(ref.source));
      if (place.own) ++emptied_rows_;
      return false;
    case BadSamplePolicy::SUBSTITUTE:
      for (uint64_t attempt = 1; attempt <= plan::Plan::kMaxSubstitutes;
           ++attempt) {
        const absl::Status tried =
            LoadFrom(epoch_.Substitute(ref, attempt), place, nullptr);
        if (tried.ok()) return true;
        if (!IsBadSample(tried)) return tried;
        NoteBadSample(tried, place);
      }
      return WithErrorDetail(
          absl::DataLossError(absl::StrCat(
              NameFile(status, ref).message(), " (and the ",
              plan::Plan::kMaxSubstitutes,
              " samples that could replace it are damaged too: ",
              plan::Plan::kNeighbours, " after it and ",
              plan::Plan::kMaxSubstitutes - plan::Plan::kNeighbours,
              " from the whole dataset, so most of its samples are damaged: "
              "run `millrace-data verify` and restore the files)")),
          GetErrorDetail(status));
    default:
      return WithPolicyHint(NameFile(status, ref));
  }
}

absl::Status RowFiller::NameFile(const absl::Status& status,
                                 const plan::SampleRef& ref) const {
  const storage::SampleFiles* const files =
      pipeline_.source(ref.source).sample_files();
  if (files == nullptr) return status;
  const std::string file = files->FileOf(ref.index);
  if (absl::StrContains(status.message(), file)) return status;
  return WithErrorDetail(
      absl::Status(status.code(), absl::StrCat(file, ": ", status.message())),
      GetErrorDetail(status));
}

absl::Status RowFiller::LoadFrom(const plan::SampleRef& ref, const Place& place,
                                 FetchedSample* fetched) {
  MR_RETURN_IF_ERROR(UseSource(ref.source));
  augment::ParameterLog* const log = worker_.log();
  if (log != nullptr && pipeline_.sources() > 1) log->BeginSource(ref.source);
  if (log != nullptr) log->BeginSample(ref.index, ref.key);
  const auto write = [&](const storage::EncodedSample& sample) {
    absl::Status written = WriteColumns(sample, ref.key, place);
    if (written.ok()) return written;
    return Located(std::move(written), "decode", &sample, ref.index);
  };
  absl::Status status = fetched != nullptr ? fetched->Visit(write)
                                           : reader_->Read(ref.index, write);
  if (status.ok()) {
    if (place.own) {
      slice_.placed->SetSample(slice_.payload, place.row, ref.index, true,
                               static_cast<int32_t>(ref.source));
    }
    return status;
  }
  return Located(std::move(status), "storage", nullptr, ref.index);
}

absl::Status RowFiller::WriteColumns(const storage::EncodedSample& sample,
                                     uint64_t key, const Place& place) {
  int sized_field = -1;  // the image whose size is in the scratch
  for (int i : pipeline_.order(source_)) {
    const Column& column = pipeline_.columns(source_)[i];
    if (column.image_field >= 0 && column.image_field != sized_field) {
      ImageStage::Scratch& scratch = worker_.ScratchFor(*column.image_size);
      MR_ASSIGN_OR_RETURN(scratch.image_size,
                          column.image_size->ReadSize(
                              sample.fields[column.image_field], scratch));
      sized_field = column.image_field;
    }
    MR_RETURN_IF_ERROR(WriteColumn(i, sample.fields[column.field], key, place));
    if (column.stage != nullptr && column.stage->leaves_size()) {
      sized_field = column.field;
    }
  }
  return absl::OkStatus();
}

absl::Status RowFiller::WriteColumn(int i, absl::Span<const uint8_t> stored,
                                    uint64_t key, const Place& place) {
  const Column& column = pipeline_.columns(source_)[i];
  if (column.classes > 0) return ReadClass(column, stored, place);
  if (column.stage == nullptr && stored.size() != column.raw_bytes) {
    // Storage has compared the number with the schema already.
    return BadStorage(absl::StrCat("field ", FieldOf(column).name(), " has ",
                                   stored.size(), " bytes instead of ",
                                   column.raw_bytes));
  }
  const uint8_t* raw = stored.data();
  const bool formats_now = column.format.has_value() && column.mixers == 0;
  if (column.stage != nullptr) {
    uint8_t* const out = Raw(i, place);
    if (worker_.log() != nullptr) {
      worker_.log()->BeginField(FieldOf(column).name());
    }
    MR_RETURN_IF_ERROR(
        column.stage->Run(stored, key, worker_.ScratchFor(*column.stage),
                          absl::MakeSpan(out, column.raw_bytes)));
    raw = out;
  } else if (!formats_now) {
    std::memcpy(Raw(i, place), raw, column.raw_bytes);
  }
  if (!formats_now) return absl::OkStatus();
  // A partner's values are checked here as in its own row.
  uint8_t* const scratch = format_scratch();
  uint8_t* const target =
      place.own ? OnWire(i, place)
                : scratch + (column.format->scratch_bytes() + 63) / 64 * 64;
  if (column.format->Apply(raw, target, scratch)) return absl::OkStatus();
  return BadStorage(absl::StrCat(
      "field ", FieldOf(column).name(),
      " has a value that does not fit into the type in which the server sends "
      "its ",
      FieldOf(column).num_classes(),
      " classes; set outputs { dtype: DTYPE_INT64 } to see the value"));
}

absl::Status RowFiller::ReadClass(const Column& column,
                                  absl::Span<const uint8_t> stored,
                                  const Place& place) {
  int64_t index = -1;
  if (stored.size() != sizeof(index)) {
    return BadStorage(absl::StrCat("field ", FieldOf(column).name(), " has ",
                                   stored.size(), " bytes instead of ",
                                   sizeof(index)));
  }
  std::memcpy(&index, stored.data(), sizeof(index));
  if (index < 0 || index >= column.classes) {
    return BadStorage(absl::StrCat("field ", FieldOf(column).name(), " is ",
                                   index, ", which is not one of its ",
                                   column.classes,
                                   " classes, and cannot be mixed"));
  }
  std::memcpy(slot(place.slot) + column.class_offset, &index, sizeof(index));
  return absl::OkStatus();
}

void RowFiller::Empty(const Place& place, int64_t sample_index,
                      int32_t source) {
  if (!place.own) return;
  slice_.placed->FillEmptyRow(slice_.payload, place.row, sample_index, source);
  // If the device computes the transform, it computes it on the zeros, too.
  // Masks contain their fill.
  const auto& columns = pipeline_.columns();
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    const Column& column = columns[i];
    if (!column.EmptyIsNotZero()) continue;
    uint8_t* const raw = Raw(i, place);
    std::memset(raw, column.empty, column.raw_bytes);
    if (!column.format) continue;
    column.format->Apply(raw, OnWire(i, place), format_scratch());
  }
}

void RowFiller::Mix(const Place& a, const Place& b) {
  const augment::BatchMix& mix = slice_.mix;
  const auto& columns = pipeline_.columns();
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    const Column& column = columns[i];
    if ((column.mixers >> mix.mixer & 1) == 0 || column.classes > 0) continue;
    uint8_t* const x = Raw(i, a);
    uint8_t* const y = Raw(i, b);
    const auto bytes = static_cast<int64_t>(column.raw_bytes);
    if (mix.kind == augment::BatchMix::MIX_UP) {
      if (a.own && b.own) {
        augment::MixRows(x, y, bytes, mix.share);
      } else {
        augment::MixRow(a.own ? x : y, a.own ? y : x, bytes, mix.share);
      }
    } else if (a.own && b.own) {
      augment::SwapBoxes(x, y, column.row_stride, column.channels, mix);
    } else {
      augment::CopyBox(a.own ? x : y, a.own ? y : x, column.row_stride,
                       column.channels, mix);
    }
  }
}

void RowFiller::Finish(const Place& place, const Place* partner) {
  const augment::BatchMix& mix = slice_.mix;
  const auto& columns = pipeline_.columns();
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    const Column& column = columns[i];
    if (column.mixers == 0) continue;
    uint8_t* raw = nullptr;
    if (column.classes > 0) {
      raw = column.format ? Raw(i, place) : OnWire(i, place);
      std::memset(raw, 0, column.raw_bytes);
      auto* const shares = reinterpret_cast<float*>(raw);
      if (partner != nullptr && (column.mixers >> mix.mixer & 1) != 0) {
        shares[ClassOf(column, place)] += mix.own_weight;
        shares[ClassOf(column, *partner)] += mix.partner_weight;
      } else {
        shares[ClassOf(column, place)] = 1;
      }
    } else if (column.format) {
      raw = Raw(i, place);
    }
    if (!column.format) continue;
    // Pixels and label shares become floating point or other planes; all values
    // fit.
    MR_CHECK(column.format->Apply(raw, OnWire(i, place), format_scratch()))
        << "output " << i;
  }
}

uint8_t* RowFiller::Raw(int i, const Place& place) const {
  const Column& column = pipeline_.columns()[i];
  if (place.own && !column.format) return OnWire(i, place);
  return slot(place.slot) + column.staging_offset;
}

uint8_t* RowFiller::OnWire(int i, const Place& place) const {
  return slice_.placed->Row(slice_.payload, i, place.row);
}

int64_t RowFiller::ClassOf(const Column& column, const Place& place) const {
  int64_t index;
  std::memcpy(&index, slot(place.slot) + column.class_offset, sizeof(index));
  return index;
}

absl::Status RowFiller::Located(absl::Status status, absl::string_view stage,
                                const storage::EncodedSample* sample,
                                int64_t index) const {
  ErrorDetail detail = MakeErrorDetail(stage);
  const DatasetInfo& info = pipeline_.info(source_);
  detail.set_dataset(info.name());
  detail.set_sample(index);
  const storage::SampleFiles* const files =
      pipeline_.source(source_).sample_files();
  if (sample != nullptr && files != nullptr) {
    detail.set_shard(files->FileOf(index));
    detail.set_row(0);
  } else if (sample != nullptr) {
    if (sample->shard >= 0 && sample->shard < info.shards_size()) {
      detail.set_shard(info.shards(sample->shard).name());
    }
    detail.set_row(sample->row);
  }
  return WithErrorDetail(std::move(status), detail);
}

void RowFiller::NoteBadSample(const absl::Status& status, const Place& place) {
  if (!place.own) return;  // the partner's own row counts it
  ++bad_samples_;
  bad_list_.Add(status);
  MR_LOG_EVERY(WARNING, absl::Seconds(1))
      << "bad sample (policy "
      << v1::BadSamplePolicy::Action_Name(
             pipeline_.plan().spec().bad_samples().action())
      << "): " << FormatError(status);
}

}  // namespace millrace::pipeline
