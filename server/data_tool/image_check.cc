#include "server/data_tool/image_check.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "server/decode/limits.h"

namespace millrace::data_tool {
namespace {

// Max bytes that a decoder keeps for the next image.
constexpr size_t kKeptBytes = size_t{16} << 20;

absl::Status DecodeOnly(absl::Span<const uint8_t> bytes,
                        const operators::Operators* operators,
                        decode::ImageDecoder& decoder) {
  const operators::Operators::Decoder* const own =
      operators == nullptr ? nullptr : operators->SniffedBy(bytes);
  MR_ASSIGN_OR_RETURN(
      const decode::ImageHeader header,
      decoder.Open(
          bytes, /*exif_transpose=*/false,
          own == nullptr
              ? absl::Span<const operators::Operators::Decoder* const>()
              : absl::MakeConstSpan(&own, 1)));
  decode::DecodeRegion region;
  region.divisor = header.max_divisor;
  region.width = (header.width + region.divisor - 1) / region.divisor;
  region.height = (header.height + region.divisor - 1) / region.divisor;
  // Of a very large image, the server decodes only a part or a smaller size.
  if (region.width * region.height * region.channels >
      decode::kMaxDecodedBytes) {
    region.channels = 1;
  }
  return decoder.Decode(region).status();
}

}  // namespace

absl::Status DecodesWhole(absl::Span<const uint8_t> bytes,
                          const operators::Operators* operators,
                          decode::ImageDecoder& decoder) {
  absl::Status status = DecodeOnly(bytes, operators, decoder);
  decoder.ReleaseAbove(kKeptBytes);
  return status;
}

ImageCheck::ImageCheck(uint32_t threads, const operators::Operators* operators)
    : operators_(operators), pool_("mr-check", threads, threads) {}

void ImageCheck::Add(int64_t number, Fetch fetch) {
  pool_.Submit(
      [this, number, fetch = std::move(fetch)] { Check(number, fetch); });
}

void ImageCheck::Check(int64_t number, const Fetch& fetch) {
  std::unique_ptr<decode::ImageDecoder> decoder;
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      decoder = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (decoder == nullptr) decoder = std::make_unique<decode::ImageDecoder>();
  const absl::StatusOr<std::string> bytes = fetch();
  absl::Status status = bytes.status();
  if (status.ok()) {
    status = DecodesWhole(
        {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()},
        operators_, *decoder);
  }
  MutexLock lock(mu_);
  idle_.push_back(std::move(decoder));
  if (!status.ok()) bad_.push_back({number, std::move(status)});
}

std::vector<ImageCheck::Bad> ImageCheck::Finish() {
  pool_.Close();
  MutexLock lock(mu_);
  std::sort(bad_.begin(), bad_.end(),
            [](const Bad& a, const Bad& b) { return a.number < b.number; });
  return std::move(bad_);
}

}  // namespace millrace::data_tool
