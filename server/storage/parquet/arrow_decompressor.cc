#include "server/storage/parquet/arrow_decompressor.h"

#include <arrow/util/compression.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {
namespace {

class ArrowDecompressor final : public Decompressor {
 public:
  ArrowDecompressor(std::unique_ptr<arrow::util::Codec> codec,
                    std::shared_ptr<arrow::util::Decompressor> stream)
      : codec_(std::move(codec)), stream_(std::move(stream)) {}

  absl::StatusOr<Step> Run(absl::Span<const uint8_t> input,
                           absl::Span<uint8_t> output) override {
    if (stream_->IsFinished()) {
      const arrow::Status status = stream_->Reset();
      if (!status.ok()) return Damaged(status);
    }
    auto step =
        stream_->Decompress(static_cast<int64_t>(input.size()), input.data(),
                            static_cast<int64_t>(output.size()), output.data());
    if (!step.ok()) return Damaged(step.status());
    return Step{static_cast<size_t>(step->bytes_read),
                static_cast<size_t>(step->bytes_written),
                stream_->IsFinished()};
  }

 private:
  absl::Status Damaged(const arrow::Status& status) const {
    return absl::DataLossError(absl::StrCat(
        "the ", codec_->name(), " stream is damaged: ", status.message()));
  }

  const std::unique_ptr<arrow::util::Codec> codec_;
  const std::shared_ptr<arrow::util::Decompressor> stream_;
};

absl::Status NotThere(const arrow::Status& status) {
  return absl::UnimplementedError(status.message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decompressor>> NewArrowDecompressor(
    Codec codec) {
  auto made = arrow::util::Codec::Create(codec == Codec::kBzip2
                                             ? arrow::Compression::BZ2
                                             : arrow::Compression::BROTLI);
  if (!made.ok()) return NotThere(made.status());
  auto stream = (*made)->MakeDecompressor();
  if (!stream.ok()) return NotThere(stream.status());
  return std::make_unique<ArrowDecompressor>(*std::move(made),
                                             *std::move(stream));
}

}  // namespace millrace::storage
