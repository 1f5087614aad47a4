#include "server/pipeline/row_filler.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"

namespace millrace {
namespace {

bool IsBadSample(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDataLoss;
}

}  // namespace

absl::Status RowFiller::Begin() {
  auto reader = worker_.ReaderOf(pipeline_.source());
  if (!reader.ok()) return Located(reader.status(), "storage", nullptr, -1);
  reader_ = *reader;
  return absl::OkStatus();
}

absl::Status RowFiller::Fill(uint64_t row, uint64_t position) {
  const SampleRef ref = epoch_.At(position);
  if (!ref.valid) {
    placed_.FillEmptyRow(payload_, row, /*sample_index=*/-1);
    return absl::OkStatus();
  }
  absl::Status status = FillFrom(ref, row);
  if (status.ok()) return status;
  if (!IsBadSample(status)) return status;
  NoteBadSample(status);
  switch (pipeline_.plan().spec().bad_samples().action()) {
    case BadSamplePolicy::ZERO:
      // The index stays: it says which sample is missing.
      placed_.FillEmptyRow(payload_, row, ref.index);
      ++emptied_rows_;
      return absl::OkStatus();
    case BadSamplePolicy::SUBSTITUTE:
      for (uint64_t attempt = 1; attempt <= kMaxSubstitutes; ++attempt) {
        const absl::Status tried =
            FillFrom(epoch_.Substitute(ref, attempt), row);
        if (tried.ok() || !IsBadSample(tried)) return tried;
        NoteBadSample(tried);
      }
      return WithErrorDetail(
          absl::DataLossError(absl::StrCat(
              status.message(), " (and the ", kMaxSubstitutes,
              " samples that could take its place are damaged, too)")),
          GetErrorDetail(status));
    default:
      return status;
  }
}

absl::Status RowFiller::FillFrom(const SampleRef& ref, uint64_t row) {
  absl::Status status =
      reader_->Read(ref.index, [&](const EncodedSample& sample) {
        absl::Status written = WriteColumns(sample, ref.key, row);
        if (written.ok()) return written;
        return Located(std::move(written), "decode", &sample, ref.index);
      });
  if (status.ok()) {
    placed_.SetSample(payload_, row, ref.index, true);
    return status;
  }
  return Located(std::move(status), "storage", nullptr, ref.index);
}

absl::Status RowFiller::WriteColumns(const EncodedSample& sample, uint64_t key,
                                     uint64_t row) {
  const auto& columns = pipeline_.columns();
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    const BuiltPipeline::Column& column = columns[i];
    const absl::Span<const uint8_t> stored = sample.fields[column.field];
    uint8_t* const out = placed_.Row(payload_, i, row);
    if (column.stage != nullptr) {
      MR_RETURN_IF_ERROR(column.stage->Run(stored, key,
                                           worker_.ScratchFor(*column.stage),
                                           absl::MakeSpan(out, column.bytes)));
    } else if (stored.size() == column.bytes) {
      std::memcpy(out, stored.data(), column.bytes);
    } else {
      // Storage has compared it with the schema already.
      return WithErrorDetail(
          absl::DataLossError(absl::StrCat(
              "field ", pipeline_.info().schema().fields(column.field).name(),
              " has ", stored.size(), " bytes instead of ", column.bytes)),
          MakeErrorDetail("storage"));
    }
  }
  return absl::OkStatus();
}

absl::Status RowFiller::Located(absl::Status status, absl::string_view stage,
                                const EncodedSample* sample,
                                int64_t index) const {
  ErrorDetail detail = MakeErrorDetail(stage);
  const DatasetInfo& info = pipeline_.info();
  detail.set_dataset(info.name());
  detail.set_sample(index);
  if (sample != nullptr) {
    if (sample->shard >= 0 && sample->shard < info.shards_size()) {
      detail.set_shard(info.shards(sample->shard).name());
    }
    detail.set_row(sample->row);
  }
  return WithErrorDetail(std::move(status), detail);
}

void RowFiller::NoteBadSample(const absl::Status& status) {
  ++bad_samples_;
  MR_LOG_EVERY(WARNING, absl::Seconds(1))
      << "bad sample (policy "
      << v1::BadSamplePolicy::Action_Name(
             pipeline_.plan().spec().bad_samples().action())
      << "): " << FormatError(status);
}

}  // namespace millrace
